import Synchronization

@testable import AnabranchCore

private final class ReadCounter: Sendable {
    let count = Mutex(0)
}

/// Rows in memory, as a store would keep them.
struct MemoryRows: ObjectRows {
    private(set) var rows: [RowAddress: [UInt8]] = [:]
    private let reads = ReadCounter()
    /// Reading fails, as a store's can.
    var isBroken = false

    /// How often single rows were asked for.
    var readCount: Int {
        get { reads.count.withLock { $0 } }
        nonmutating set { reads.count.withLock { $0 = newValue } }
    }

    struct Broken: Error {}

    func row(at address: RowAddress) throws -> [UInt8]? {
        if isBroken { throw Broken() }
        readCount += 1
        return rows[address]
    }

    func objects(
        of classID: ClassID, after key: [UInt8]?, limit: Int
    ) throws -> [(key: [UInt8], row: [UInt8])] {
        if isBroken { throw Broken() }
        return rows.filter { address, _ in
            address.classID == classID && address.chunk == 0
                && (key.map { $0.lexicographicallyPrecedes(address.key) } ?? true)
        }
        .map { (key: $0.key.key, row: $0.value) }.sorted { $0.key.lexicographicallyPrecedes($1.key) }
        .prefix(limit).map { $0 }
    }

    mutating func write(_ writes: RowWrites) {
        rows = rows.filter { !writes.erasedClasses.contains($0.key.classID) }
        for address in writes.removed { rows[address] = nil }
        for row in writes.rows { rows[row.address] = row.bytes }
    }

    /// Replaces a row by other bytes.
    mutating func damage(_ address: RowAddress, _ bytes: [UInt8]) { rows[address] = bytes }
}
