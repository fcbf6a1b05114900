import AnabranchCore
import AnabranchQuery
import Foundation
import GRDB

/// The values of properties by which objects are found (`Spec/Replica.md`, section 2.5): a row for each object, kept by
/// the commit that changes the object.
struct PropertyIndex: Sendable {
    static let tables = """
        CREATE TABLE indexed_property (
            number INTEGER PRIMARY KEY,
            class INTEGER NOT NULL,
            slot INTEGER NOT NULL,
            UNIQUE (class, slot)
        );
        CREATE TABLE property_value (
            property INTEGER NOT NULL,
            value BLOB NOT NULL,
            key BLOB NOT NULL,
            PRIMARY KEY (property, value, key)
        ) WITHOUT ROWID;

        """

    /// The indexed properties by class.
    private var properties: [ClassID: [Indexed]] = [:]

    private struct Indexed: Sendable {
        let number: Int64
        let property: Property
    }

    /// - Parameter state: the stored state.
    init(of state: ObjectGraph, in db: Database) throws {
        for row in try Row.fetchAll(db, sql: "SELECT number, class, slot FROM indexed_property ORDER BY number") {
            let classID = ClassID(try row.decode(UInt32.self, atIndex: 1)), slot: Int = try row.decode(atIndex: 2)
            // An erased property stays in the table, and nobody asks for it.
            guard let property = state.schema(of: classID)?.properties.first(where: { $0.slot == slot }) else {
                continue
            }
            properties[classID, default: []].append(
                Indexed(number: try row.decode(Int64.self, atIndex: 0), property: property))
        }
    }

    /// The indexed properties of a class, by their slots.
    func slots(of classID: ClassID) -> Set<Int> { Set((properties[classID] ?? []).compactMap(\.property.slot)) }

    func number(of property: Property) -> Int64? {
        properties[property.owner]?.first { $0.property == property }?.number
    }

    // MARK: Commits

    /// Carries out the changes of a commit; the caller has a transaction.
    func write(_ commit: RowWrites, erasesState: Bool, in db: Database) throws {
        guard !properties.isEmpty else { return }
        if erasesState { try db.execute(sql: "DELETE FROM property_value") }
        for classID in commit.erasedClasses {
            for indexed in properties[classID] ?? [] { try removeValues(of: indexed.number, in: db) }
        }
        for change in commit.noted {
            for indexed in properties[change.object.classID] ?? [] {
                let before =
                    erasesState ? nil : change.before.flatMap { Self.bytes(of: $0.value(of: indexed.property)) }
                let after = change.after.flatMap { Self.bytes(of: $0.value(of: indexed.property)) }
                guard before != after else { continue }
                let key = Data(change.object.key.rowKey)
                if let before { try remove(before, key, indexed.number, in: db) }
                if let after { try add(after, key, indexed.number, in: db) }
            }
        }
    }

    private func removeValues(of number: Int64, in db: Database) throws {
        try db.execute(sql: "DELETE FROM property_value WHERE property = ?", arguments: [number])
    }

    private func add(_ value: Data, _ key: Data, _ number: Int64, in db: Database) throws {
        let sql = "INSERT OR REPLACE INTO property_value (property, value, key) VALUES (?, ?, ?)"
        try db.cachedStatement(sql: sql).execute(arguments: [number, value, key])
    }

    private func remove(_ value: Data, _ key: Data, _ number: Int64, in db: Database) throws {
        let sql = "DELETE FROM property_value WHERE property = ? AND value = ? AND key = ?"
        try db.cachedStatement(sql: sql).execute(arguments: [number, value, key])
    }

    // MARK: Which properties are indexed

    /// Indexes exactly these properties of these classes; those of other classes stay as they are. The caller has a
    /// transaction.
    ///
    /// - Parameter state: the stored state.
    mutating func declare(_ wanted: [ClassID: Set<Property>], of state: ObjectGraph, in db: Database) throws {
        self = try PropertyIndex(of: state, in: db)
        for (classID, wanted) in wanted {
            for indexed in properties[classID] ?? [] where !wanted.contains(indexed.property) {
                try removeValues(of: indexed.number, in: db)
                try db.execute(sql: "DELETE FROM indexed_property WHERE number = ?", arguments: [indexed.number])
            }
            let new = wanted.filter { number(of: $0) == nil }
            for property in new {
                let sql = "INSERT INTO indexed_property (class, slot) VALUES (?, ?)"
                try db.execute(sql: sql, arguments: [Int64(classID.rawValue), property.slot])
            }
            guard !new.isEmpty else { continue }
            let known = try PropertyIndex(of: state, in: db)
            try known.addValues(
                of: known.properties[classID]?.filter { new.contains($0.property) } ?? [], state, in: db)
        }
        self = try PropertyIndex(of: state, in: db)
    }

    private func addValues(of new: [Indexed], _ state: ObjectGraph, in db: Database) throws {
        guard let classID = new.first?.property.owner else { return }
        var failure: (any Error)?
        try state.forEachObject(of: classID) { object throws(ApplyError) in
            guard failure == nil, let key = object.key.map({ Data($0.rowKey) }) else { return }
            do {
                for indexed in new {
                    guard let value = Self.bytes(of: object.value(of: indexed.property)) else { continue }
                    try add(value, key, indexed.number, in: db)
                }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
    }

    /// True if it has exactly the values of the objects.
    func isWhole(of state: ObjectGraph, in db: Database) throws -> Bool {
        let exists = "SELECT EXISTS (SELECT 1 FROM property_value WHERE property = ? AND value = ? AND key = ?)"
        for (classID, indexed) in properties {
            var counts: [Int64: Int] = [:], isMissing = false, failure: (any Error)?
            try state.forEachObject(of: classID) { object throws(ApplyError) in
                guard failure == nil, !isMissing, let key = object.key.map({ Data($0.rowKey) }) else { return }
                do {
                    for indexed in indexed {
                        guard let value = Self.bytes(of: object.value(of: indexed.property)) else { continue }
                        let arguments: StatementArguments = [indexed.number, value, key]
                        if try Bool.fetchOne(db.cachedStatement(sql: exists), arguments: arguments) != true {
                            isMissing = true
                        }
                        counts[indexed.number, default: 0] += 1
                    }
                } catch {
                    failure = error
                }
            }
            if let failure { throw failure }
            for indexed in indexed {
                let sql = "SELECT COUNT(*) FROM property_value WHERE property = ?"
                let count = try Int.fetchOne(db, sql: sql, arguments: [indexed.number])
                if isMissing || count != counts[indexed.number] ?? 0 { return false }
            }
        }
        return true
    }

    // MARK: Finding

    /// Calls `body` with the keys of the objects whose values lie in a range, in the order of the values, and of the
    /// keys where they are equal, until it returns false. With the key comes the beginning of the value if the index
    /// does not have all of it: objects with the same beginning come in no particular order.
    func forEachKey(
        of property: Property, in range: ValueRange, isAscending: Bool = true, in db: Database,
        _ body: (PrimaryKey, _ beginning: [UInt8]?) throws -> Bool
    ) throws {
        guard let number = number(of: property) else { return }
        let order = isAscending ? "ASC" : "DESC", bounds = Self.bounds(range)
        let sql = """
            SELECT value, key FROM property_value WHERE property = ? AND value >= ? AND value <= ?
            ORDER BY value \(order), key \(order)
            """
        let rows = try Row.fetchCursor(
            db.cachedStatement(sql: sql), arguments: [number, bounds.least, bounds.greatest])
        // In descending order, keys with equal values come in the wrong order.
        var equal: (value: [UInt8], keys: [PrimaryKey]) = ([], [])
        func tellEqual() throws -> Bool {
            let beginning = Self.beginning(equal.value)
            return try equal.keys.reversed().allSatisfy { try body($0, beginning) }
        }
        while let row = try rows.next() {
            guard let key = PrimaryKey(rowKey: try row.bytes(1)) else { continue }
            let value = try row.bytes(0)
            if isAscending {
                guard try body(key, Self.beginning(value)) else { return }
                continue
            }
            if value != equal.value {
                guard try tellEqual() else { return }
                equal = (value, [])
            }
            equal.keys.append(key)
        }
        _ = try tellEqual()
    }

    /// The bounds of a range in the index. Null, which sorts first, lies in no range but that of null alone.
    private static func bounds(_ range: ValueRange) -> (least: Data, greatest: Data) {
        (range.least.flatMap(bytes) ?? Data([1]), range.greatest.flatMap(bytes) ?? Data([255]))
    }

    // MARK: Values

    /// The size up to which a text is in the index, in bytes. Of a longer one only the beginning is, so that a look-up
    /// has to compare the objects.
    static let valueBytesMax = 256

    /// - Returns: nil if it is the whole value.
    private static func beginning(_ value: [UInt8]) -> [UInt8]? { value.count > valueBytesMax ? value : nil }

    /// A value as bytes that sort like numbers and times; nil for a value that no index has.
    private static func bytes(of value: StateValue) -> Data? { value.payload.flatMap(bytes) }

    private static func bytes(of value: Payload) -> Data? {
        switch value {
        case .null: Data([0])
        case .bool(let value): Data([1, value ? 1 : 0])
        case .int(let value): Data([2]) + sortable(value)
        case .timestamp(let time): Data([3]) + sortable(time.seconds) + sortable(Int64(time.nanoseconds))
        case .string(let text): Data([4]) + text.prefix(valueBytesMax)
        case .objectID(let id): Data([5]) + id.bytes
        case .uuid(let id): Data([6]) + id.bytes
        default: nil
        }
    }

    private static func sortable(_ number: Int64) -> Data {
        withUnsafeBytes(of: (UInt64(bitPattern: number) ^ 1 << 63).bigEndian) { Data($0) }
    }
}
