import AnabranchCore

/// An action on a row.
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
    /// A text column to which ` (2)`, ` (3)` … is added, for all devices, when rows of two of them have one unique
    /// value; nil if the row of others waits.
    public var suffix: String?

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
                        throw bad("'\(text)' is no form of dates: \(known)", column)
                    }
                    dates[column] = form
                }
            case "references": references = try texts(value, name)
            case "suffix":
                guard let text = value.string else { throw bad("suffix: a column") }
                suffix = text
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
        if let suffix { members["suffix"] = .string(suffix) }
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
        for column in Array(dates.keys) + Array(references.keys) + [suffix].compactMap(\.self)
        where !known.contains(column) {
            throw CaptureError(.badRule, "a rule names a column that does not exist", table: shape.name, column: column)
        }
        guard let filter else { return self }
        do { try db.compile("SELECT 1 FROM main.\(shape.name.quoted) WHERE (\(filter))") } catch let error as SQLError {
            throw CaptureError(.badRule, "filter: \(error)", table: shape.name)
        }
        return self
    }
}
