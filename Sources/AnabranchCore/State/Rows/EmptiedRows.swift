import Synchronization

/// Rows that seem to be gone until they are: in the commit that empties a state, and writes another one in its place,
/// they are still there.
package final class EmptiedRows: ObjectRows {
    private let rows: any ObjectRows
    private let isEmptied = Atomic(true)

    init(_ rows: any ObjectRows) { self.rows = rows }

    /// Records that the commit was made: from now on, reads find what it wrote.
    package func refill() { isEmptied.store(false, ordering: .releasing) }

    private var isFilled: Bool { !isEmptied.load(ordering: .acquiring) }

    package func row(at address: RowAddress) throws -> [UInt8]? { isFilled ? try rows.row(at: address) : nil }

    package func objects(
        of classID: ClassID, after key: [UInt8]?, limit: Int
    ) throws -> [(key: [UInt8], row: [UInt8])] {
        isFilled ? try rows.objects(of: classID, after: key, limit: limit) : []
    }

    package func readTogether(_ body: () throws -> Void) throws { try rows.readTogether(body) }

    package var primaryKeyBytesMax: Int { rows.primaryKeyBytesMax }
}

extension ObjectGraph {
    /// A state without anything in the place of this one: for a commit that erases all rows before it writes those of
    /// the new state. Nil for the rows if all objects are in memory.
    package func emptied() throws(ApplyError) -> (state: ObjectGraph, rows: EmptiedRows?) {
        guard let rows else { return (ObjectGraph(), nil) }
        let emptied = EmptiedRows(rows)
        return (try ObjectGraph(rows: emptied), emptied)
    }
}
