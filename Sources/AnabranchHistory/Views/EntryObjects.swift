import AnabranchCore

/// The objects that entries of the log touch, found out once for all views that catch up with the same entries.
final class EntryObjects {
    typealias Touched = [(ObjectReference, className: [UInt8])]

    /// About the largest size of what is kept, in bytes.
    private static let bytesMax = 4 << 20
    /// The size of an object beside its entry, in bytes.
    private static let objectBytes = 128

    private var known: [ServerVersion: (changeset: [UInt8], touched: Touched)] = [:]
    private var byteCount = 0

    /// The objects that an entry touches, if they are known. Its changeset is compared: a version that was not stored
    /// in the end is given again.
    func touched(by entry: LogEntry) -> Touched? {
        guard let known = known[entry.version], known.changeset == entry.changeset else { return nil }
        return known.touched
    }

    /// The objects that an entry touches, in no order, with the names of their classes.
    func touched(by entry: LogEntry, in state: ObjectGraph) throws(HistoryError) -> Touched {
        if let known = touched(by: entry) { return known }
        let touched = try state.touched(by: entry)
        let bytes = entry.changeset.count + Self.objectBytes * touched.count
        if byteCount + bytes > Self.bytesMax { (known, byteCount) = ([:], 0) }
        if bytes <= Self.bytesMax {
            known[entry.version] = (entry.changeset, touched)
            byteCount += bytes
        }
        return touched
    }
}
