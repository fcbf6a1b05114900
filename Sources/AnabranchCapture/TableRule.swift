import AnabranchCore

/// The actions on a row that a rule can allow, in either direction.
public enum RowAction: String, CaseIterable, Sendable {
    /// A new row.
    case insert
    /// Other values.
    case update
    /// A row that goes.
    case delete
}

/// The rule for a table: what is sent, what is taken, and what some columns mean (`Spec/Capture.md`, section 4).
public struct TableRule: Equatable, Sendable {
    /// The actions of the application that are sent. The others are undone in the database if they are pulled, and stay
    /// as they are if not.
    public var pushes = Set(RowAction.allCases)
    /// The actions of others that are carried out in the database.
    public var pulls = Set(RowAction.allCases)
    /// A condition in SQL on the columns of the row: a row for which it does not hold has no object until it does.
    public var filter: String?
    /// The columns that hold times, and how they spell them.
    public var dates: [String: DateForm] = [:]
    /// The columns that hold keys of another table without a declared foreign key.
    public var references: [String: String] = [:]
    /// A column that is added to the table, and has the key of each row's object: 16 bytes; nil for none.
    public var guid: String?
    /// The columns that tell which record a row is: by them rows that were there before the first exchange are matched
    /// with objects; none if they are not.
    public var matches: [String] = []
    /// Which of two rows yields, for all devices, when rows of two of them have one unique value, and how; nil if the
    /// row of others waits.
    public var yielding: Yielding?

    /// The way in which one of two rows with one unique value yields. Each names a column of the constraint.
    public enum Yielding: Equatable, Sendable {
        /// ` (2)`, ` (3)` … is added to a text column of the row that was made later.
        case suffix(String)
        /// A column of the row that was made later becomes null.
        case null(String)
        /// The row that was made earlier is deleted; its values are kept in `sync_conflict`.
        case newest(String)

        static let names = ["suffix", "null", "newest"]

        init?(_ name: String, column: String) {
            switch name {
            case "suffix": self = .suffix(column)
            case "null": self = .null(column)
            case "newest": self = .newest(column)
            default: return nil
            }
        }

        var name: String {
            switch self {
            case .suffix: "suffix"
            case .null: "null"
            case .newest: "newest"
            }
        }

        var column: String {
            switch self {
            case .suffix(let column), .null(let column), .newest(let column): column
            }
        }
    }

    /// Everything is sent and taken.
    public init() {}

    init(_ json: JSONValue, table: String) throws {
        func bad(_ reason: String, _ column: String? = nil) -> CaptureError {
            CaptureError(.badRule, reason, table: table, column: column)
        }
        guard let members = json.object else { throw bad("a rule is a JSON object") }
        func actions(_ value: JSONValue, _ name: String) throws -> Set<RowAction> {
            let known = RowAction.allCases.map(\.rawValue).joined(separator: ", ")
            guard let array = value.array else { throw bad("\(name): a list of \(known)") }
            return Set(
                try array.map {
                    guard let action = $0.string.flatMap(RowAction.init) else {
                        throw bad("\(name): not one of \(known)")
                    }
                    return action
                })
        }
        func texts(_ value: JSONValue, _ name: String) throws -> [String: String] {
            guard let texts = value.object?.mapValues(\.string), !texts.values.contains(nil) else {
                throw bad("\(name): an object of texts")
            }
            return texts.compactMapValues(\.self)
        }
        for (name, value) in members {
            switch name {
            case "push": pushes = try actions(value, name)
            case "pull": pulls = try actions(value, name)
            case "filter":
                guard let text = value.string else { throw bad("filter: a condition in SQL") }
                filter = text
            case "dates":
                for (column, text) in try texts(value, name) {
                    guard let form = DateForm(rawValue: text) else {
                        let known = DateForm.allCases.map(\.rawValue).joined(separator: ", ")
                        throw bad("'\(text)' is not a form of dates: \(known)", column)
                    }
                    dates[column] = form
                }
            case "guid":
                guard let column = value.string, !column.isEmpty else { throw bad("guid: a name for a new column") }
                guid = column
            case "match":
                guard let names = value.array?.map(\.string), !names.isEmpty, !names.contains(nil) else {
                    throw bad("match: a list of columns")
                }
                matches = names.compactMap(\.self)
            case "references": references = try texts(value, name)
            case _ where Yielding.names.contains(name):
                guard let column = value.string else { throw bad("\(name): a column") }
                guard yielding == nil else {
                    throw bad("only one of \(Yielding.names.joined(separator: ", "))", column)
                }
                yielding = Yielding(name, column: column)
            default: throw bad("there is no rule '\(name)'")
            }
        }
    }

    var json: JSONValue {
        func list(_ actions: Set<RowAction>) -> JSONValue {
            .array(RowAction.allCases.filter(actions.contains).map { .string($0.rawValue) })
        }
        var members: [String: JSONValue] = ["push": list(pushes), "pull": list(pulls)]
        if let filter { members["filter"] = .string(filter) }
        if !dates.isEmpty { members["dates"] = .object(dates.mapValues { .string($0.rawValue) }) }
        if !references.isEmpty { members["references"] = .object(references.mapValues { .string($0) }) }
        if let guid { members["guid"] = .string(guid) }
        if !matches.isEmpty { members["match"] = .array(matches.map { .string($0) }) }
        if let yielding { members[yielding.name] = .string(yielding.column) }
        return .object(members)
    }

    /// The rules of several tables, as a file has them.
    /// - Throws: `CaptureError` with the code `badRule`, and the table.
    public static func rules(inJSON text: [UInt8]) throws -> [String: TableRule] {
        guard let members = (try? JSONValue(parsing: text))?.object else {
            throw CaptureError(.badRule, "the rules are no JSON object of tables")
        }
        return Dictionary(uniqueKeysWithValues: try members.map { ($0, try TableRule($1, table: $0)) })
    }

    /// The rule, if its columns exist and its filter can be evaluated.
    func checked(_ shape: TableShape, in db: SQLConnection) throws -> TableRule {
        let known = Set(shape.columns.map(\.name))
        for column in Array(dates.keys) + Array(references.keys) + matches + [yielding?.column].compactMap(\.self)
        where !known.contains(column) {
            throw CaptureError(.badRule, "a rule names a column that does not exist", table: shape.name, column: column)
        }
        if shape.isKeyLocal, matches.contains(shape.keyColumns[0]) {
            let reason = "match: its values are numbers of rows, which differ between databases"
            throw CaptureError(.badRule, reason, table: shape.name, column: shape.keyColumns[0])
        }
        if case .null(let name) = yielding, shape.columns.contains(where: { $0.name == name && $0.isNotNull }) {
            throw CaptureError(.badRule, "null: the column cannot be null", table: shape.name, column: name)
        }
        if let yielding, !shape.uniques.contains(where: { $0.columns.contains { $0.name == yielding.column } }) {
            let reason = "\(yielding.name): no unique index that triggers can name has the column"
            throw CaptureError(.badRule, reason, table: shape.name, column: yielding.column)
        }
        guard let filter else { return self }
        do { try db.compile("SELECT 1 FROM main.\(shape.name.quoted) WHERE (\(filter))") } catch let error as SQLError {
            throw CaptureError(.badRule, "filter: \(error)", table: shape.name)
        }
        return self
    }
}
