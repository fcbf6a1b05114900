/// How the changesets of a log segment stand behind one another before they are compressed (`Spec/Durability.md`,
/// section 8.1). Sealing takes the order from which fewer bytes come: columns if most changesets do the same to
/// different objects, rows if they hold text.
enum ChangesetOrder: UInt8, CaseIterable, Sendable {
    /// One changeset after the other.
    case rows
    /// The changesets of each size together, the smallest first: of these the first byte of each, then the second byte
    /// of each, and so on.
    case columns

    /// - Parameters:
    ///   - changesets: one after the other.
    ///   - ends: where each of them ends.
    func arrange(_ changesets: [UInt8], endingAt ends: [Int]) -> [UInt8] {
        guard self == .columns else { return changesets }
        var arranged = changesets
        changesets.withUnsafeBufferPointer { rows in
            arranged.withUnsafeMutableBufferPointer { columns in
                Self.forEachByte(ofChangesetsEndingAt: ends) { columns[$1] = rows[$0] }
            }
        }
        return arranged
    }

    /// What `arrange` was given.
    func restore(_ arranged: [UInt8], endingAt ends: [Int]) -> [UInt8] {
        guard self == .columns else { return arranged }
        var changesets = arranged
        arranged.withUnsafeBufferPointer { columns in
            changesets.withUnsafeMutableBufferPointer { rows in
                Self.forEachByte(ofChangesetsEndingAt: ends) { rows[$0] = columns[$1] }
            }
        }
        return changesets
    }

    /// Calls `body` with the place of each byte in rows, and in columns: both are below the last of `ends`.
    @inline(__always)
    private static func forEachByte(ofChangesetsEndingAt ends: [Int], _ body: (_ inRows: Int, _ inColumns: Int) -> Void)
    {
        let starts = [0] + ends.dropLast()
        let startsBySize = Dictionary(grouping: zip(starts, ends)) { $1 - $0 }.mapValues { $0.map(\.0) }
        var inColumns = 0
        for (size, starts) in startsBySize.sorted(by: { $0.key < $1.key }) {
            for offset in 0..<size {
                for start in starts {
                    body(start + offset, inColumns)
                    inColumns += 1
                }
            }
        }
    }
}
