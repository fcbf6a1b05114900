public import AnabranchCore
import AnabranchQuery
import AnabranchRules

/// The decision about an object that a version writes to in a flexible file: it was refused, or it has left what the
/// client of the version sees (`Spec/Explain.md`, section 2.4).
public struct ViewDecision: Equatable, Sendable {
    /// The condition that the object does not meet.
    public enum Condition: String, Sendable, CaseIterable {
        /// The role's condition for new objects.
        case insert
        /// The role's condition for changes, by the object as it was before.
        case writeBefore = "write-before"
        /// The role's condition for changes, by the object as it would be afterwards.
        case writeAfter = "write-after"
        /// The role's condition for erasures.
        case delete
        /// The role's condition for what the user may read.
        case read
        /// The query of the client for the class.
        case query
        /// There is no such object.
        case existence
    }

    /// The object that was decided about.
    public var object: ObjectAddress
    /// True if all that the version does to the object was left out, and undone on the client; false if the object was
    /// changed, and is not in the view of the client any more.
    public var isRefused: Bool
    /// The condition that it does not meet.
    public var condition: Condition
    /// The role that gives the user this condition; nil if no role gives it, or none applies to the user.
    public var role: String?
    /// The condition as it was for the user, at most about 512 bytes of it: JSON as rules have it, or the query in its
    /// language. Nil if there is none: the client has no query for the class, or there is no such object.
    public var text: String?
}

/// The decisions about the objects of one version, as a record keeps them (`Spec/History.md`, section 19).
struct ViewDecisions: Equatable, Sendable {
    /// The largest number of decisions that are kept for a version, and about the largest number of bytes of them.
    private static let keptSize = (objects: 256, bytes: 16 << 10)
    private static let textBytesMax = 512

    private(set) var decisions: [ViewDecision] = []
    private var byteCount = 0

    /// Adds a decision, unless there are too many: the first ones say why.
    mutating func add(
        _ object: TouchedObject, isRefused: Bool, _ condition: ViewDecision.Condition, _ role: ViewRole,
        _ queries: ViewQueries
    ) {
        byteCount += object.className.count + object.key.rowKey.count
        guard decisions.count < Self.keptSize.objects, byteCount <= Self.keptSize.bytes else { return }
        let name = String(decoding: object.className, as: UTF8.self), access = role.rules.access(ofClass: name)
        let filter: Filter? =
            switch condition {
            case .insert: access.insert
            case .writeBefore, .writeAfter: access.write
            case .delete: access.delete
            case .read: access.read
            case .query, .existence: nil
            }
        let query = condition == .query ? queries.predicates[ExactString(name)]?.text : nil
        let text = filter?.json.encoded ?? query.map { $0.isEmpty ? "TRUEPREDICATE" : $0 }
        decisions.append(
            ViewDecision(
                object: ObjectAddress(object.className, object.key), isRefused: isRefused, condition: condition,
                role: filter == nil ? nil : access.role,
                text: text.map { String(excerptOf: Array($0.utf8), upTo: Self.textBytesMax) }))
    }

    // MARK: Records

    /// The change that keeps them; nil if there are none.
    func change(of version: ServerVersion) -> RecordChange? {
        guard !decisions.isEmpty else { return nil }
        return RecordChange(place: OwnRecord.decisions.place(of: version), value: bytes)
    }

    /// The encoded form: texts, each once, and then the decisions, which name them by number from 1; 0 means none.
    private var bytes: [UInt8] {
        var numbers: [ExactString: Int] = [:], texts: [ExactString] = [], body = SegmentWriter()
        func number(_ text: String?) -> Int {
            guard let text = text.map({ ExactString($0) }) else { return 0 }
            if let known = numbers[text] { return known }
            texts.append(text)
            numbers[text] = texts.count
            return texts.count
        }
        for decision in decisions {
            let index = ViewDecision.Condition.allCases.firstIndex(of: decision.condition) ?? 0
            body.write(count: index << 1 | (decision.isRefused ? 1 : 0))
            body.write(count: number(String(decoding: decision.object.className, as: UTF8.self)))
            body.write(counted: decision.object.key.rowKey)
            body.write(count: number(decision.role))
            body.write(count: number(decision.text))
        }
        var writer = SegmentWriter()
        writer.write(count: texts.count)
        for text in texts { writer.write(counted: Array(text.utf8)) }
        writer.write(body.bytes)
        return writer.bytes
    }

    init() {}

    /// - Throws: `storeDamaged`.
    init(_ record: DoorRecord, of version: ServerVersion) throws(HistoryError) {
        let limit = record.value.count
        var reader = SegmentReader(record.value, name: "the decisions about version \(version)"), texts: [[UInt8]] = []
        for _ in 0..<(try reader.count(atMost: limit)) {
            texts.append(Array(try reader.bytes(try reader.count(atMost: limit))))
        }
        func text() throws(HistoryError) -> [UInt8]? {
            let number = try reader.count(atMost: texts.count)
            return number == 0 ? nil : texts[number - 1]
        }
        while !reader.isAtEnd {
            let flags = try reader.count(atMost: 2 * ViewDecision.Condition.allCases.count - 1)
            let className = try text() ?? []
            guard let key = PrimaryKey(rowKey: Array(try reader.bytes(try reader.count(atMost: limit)))) else {
                throw reader.damaged("a primary key cannot be read")
            }
            let role = try text(), condition = try text()
            decisions.append(
                ViewDecision(
                    object: ObjectAddress(className, key), isRefused: flags & 1 == 1,
                    condition: ViewDecision.Condition.allCases[flags >> 1],
                    role: role.map { String(decoding: $0, as: UTF8.self) },
                    text: condition.map { String(decoding: $0, as: UTF8.self) }))
        }
    }
}

extension FileView {
    /// The decisions about objects of a version that were refused or have left the view of its client; none in a
    /// partition, or if they are no longer kept (`Spec/Explain.md`, section 2.4). The first ones of very many.
    public func decisions(on version: ServerVersion) throws(HistoryError) -> [ViewDecision] {
        let range = OwnRecord.decisions.range(from: version, upTo: version < .largest ? version + 1 : nil)
        guard let record = try records(in: range, countMax: 1, isReversed: false).first else { return [] }
        return try ViewDecisions(record, of: version).decisions
    }
}
