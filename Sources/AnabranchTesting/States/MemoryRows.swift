public import AnabranchCore
import Synchronization

/// Rows in memory, as a store would keep them.
public struct MemoryRows: ObjectRows {
    /// The bytes of each row.
    public private(set) var rows: [RowAddress: [UInt8]] = [:]
    /// True if reading fails, as a store's can.
    public var isBroken = false

    private let reads = ReadCount()

    /// The number of times that single rows were read.
    public var readCount: Int {
        get { reads.value.withLock { $0 } }
        nonmutating set { reads.value.withLock { $0 = newValue } }
    }

    private struct Broken: Error {}

    private final class ReadCount: Sendable {
        let value = Mutex(0)
    }

    /// Starts without rows.
    public init() {}

    /// The bytes of a row.
    public func row(at address: RowAddress) throws -> [UInt8]? {
        if isBroken { throw Broken() }
        readCount += 1
        return rows[address]
    }

    /// The rows of objects, in the order of their keys.
    public func objects(
        of classID: ClassID, after key: [UInt8]?, limit: Int
    ) throws -> [(key: [UInt8], row: [UInt8])] {
        if isBroken { throw Broken() }
        return rows.filter { address, _ in
            address.classID == classID && address.part == 0
                && (key.map { $0.lexicographicallyPrecedes(address.key) } ?? true)
        }
        .map { (key: $0.key.key, row: $0.value) }.sorted { $0.key.lexicographicallyPrecedes($1.key) }
        .prefix(limit).map { $0 }
    }

    /// The greatest key of a row of an object.
    public func greatestKey(of classID: ClassID) throws -> [UInt8]? {
        if isBroken { throw Broken() }
        return rows.keys.filter { $0.classID == classID }.map(\.key).max { $0.lexicographicallyPrecedes($1) } ?? []
    }

    /// Carries out the writes of a change of the state.
    public mutating func write(_ writes: RowWrites) {
        if !writes.erasedClasses.isEmpty {
            rows = rows.filter { !writes.erasedClasses.contains($0.key.classID) }
        }
        for address in writes.removed { rows[address] = nil }
        for row in writes.rows { rows[row.address] = row.bytes }
    }

    /// Replaces the bytes of a row; nil removes it.
    public mutating func damage(_ address: RowAddress, _ bytes: [UInt8]?) { rows[address] = bytes }
}
