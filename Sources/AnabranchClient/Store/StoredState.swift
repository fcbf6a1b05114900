import AnabranchCore
import AnabranchQuery
import AnabranchReplica
import GRDB

/// The state of a replica as it is stored, for the time of a read.
struct StoredState {
    let graph: ObjectGraph
    let index: StoredIndex
}

/// The indexed properties of a stored state, for as long as nothing is committed, or within a read.
struct StoredIndex {
    private let index: PropertyIndex
    private let pool: DatabasePool

    init(_ index: PropertyIndex, in pool: DatabasePool) {
        self.index = index
        self.pool = pool
    }

    func isIndexed(_ property: Property) -> Bool { index.number(of: property) != nil }

    /// Calls `body` with the keys of the objects whose values of an indexed property lie in a range, in the order of
    /// the values, and of the keys where they are equal, until it returns false; see `PropertyIndex`.
    func forEachKey(
        of property: Property, in range: ValueRange, isAscending: Bool = true,
        _ body: (PrimaryKey, _ beginning: [UInt8]?) throws -> Bool
    ) throws {
        do {
            try pool.unsafeReentrantRead { db in
                try index.forEachKey(of: property, in: range, isAscending: isAscending, in: db, body)
            }
        } catch let error as DatabaseError {
            throw ReplicaError(error, of: pool.path)
        }
    }
}
