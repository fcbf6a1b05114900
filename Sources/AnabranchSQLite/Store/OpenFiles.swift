import AnabranchHistory

/// The files of a shard that are open, and their leases. A file that was closed is forgotten.
struct OpenFiles {
    private struct OpenFile {
        var lease: Lease
        /// The path until its first commit; nil after that.
        var newPath: VirtualPath?
    }

    /// All epochs are below this. When they are used up the leases begin again, above those that are stored with the
    /// files.
    static let epochCount: Int64 = 1 << 30

    private var files: [Int64: OpenFile] = [:]
    private var newFiles: [VirtualPath: Int64] = [:]
    private var lastNumber: Int64
    /// The epoch, which grows with each opening of the store, and each day; nil if the stored one is damaged.
    private(set) var epoch: Int64?
    private var lastLease = Lease(0)

    /// - Parameters:
    ///   - lastNumber: the highest number of a file that is stored.
    ///   - epoch: the last epoch.
    init(lastNumber: Int64, epoch: Int64?) { (self.lastNumber, self.epoch) = (lastNumber, epoch) }

    /// Begins an epoch, whose leases are higher than all earlier ones.
    mutating func begin(_ epoch: Int64) {
        self.epoch = epoch
        lastLease = max(lastLease, Lease(UInt64(clamping: epoch) << 32))
    }

    /// - Parameter record: the record of the file; nil if it is not stored.
    mutating func open(_ path: VirtualPath, _ record: FileRecord?) -> (number: Int64, lease: Lease) {
        let number = record?.number ?? number(ofNew: path)
        lastLease.number = max(lastLease.number, record?.lease.number ?? 0) &+ 1
        files[number, default: OpenFile(lease: lastLease)].lease = lastLease
        return (number, lastLease)
    }

    private mutating func number(ofNew path: VirtualPath) -> Int64 {
        if let number = newFiles[path] { return number }
        lastNumber += 1
        newFiles[path] = lastNumber
        files[lastNumber] = OpenFile(lease: lastLease, newPath: path)
        return lastNumber
    }

    mutating func close(_ number: Int64, _ lease: Lease) {
        guard let file = files[number], file.lease == lease else { return }
        files[number] = nil
        if let path = file.newPath { newFiles[path] = nil }
    }

    /// Called when the file's first commit is durable.
    mutating func didMake(_ number: Int64) {
        if let path = files[number]?.newPath { newFiles[path] = nil }
        files[number]?.newPath = nil
    }

    mutating func didStore(_ number: Int64) { lastNumber = max(lastNumber, number) }

    func lease(of number: Int64) -> Lease? { files[number]?.lease }

    /// The path of a file without a commit; nil for others.
    func newPath(of number: Int64) -> VirtualPath? { files[number]?.newPath }

    func hasNew(_ path: VirtualPath) -> Bool { newFiles[path] != nil }
}
