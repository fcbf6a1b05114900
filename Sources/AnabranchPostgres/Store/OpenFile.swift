#if canImport(CLibPQ)
import AnabranchHistory

/// A file that is open here.
struct OpenFile: Sendable {
    let path: VirtualPath
    /// The lease of its newest opening here.
    var lease: Lease
    /// The server's term at that opening: another server may not have what is known here.
    var term: Int
    /// The row of the file as it was written or read last; nil if that is not known.
    var record: FileRecord?
    /// The openings that nobody has closed: in a shared store all of them have the same lease.
    var openingCount = 1

    /// True if it has no commit yet.
    var isNew: Bool { record.map { !$0.isStored } ?? false }
}

extension Lease {
    /// The lease of a file that was made ready in an epoch and not opened since.
    init(epoch: UInt64) { self.init(epoch << 32) }

    /// The epoch in which its file was made ready.
    var epoch: UInt64 { number >> 32 }
}

/// The files that are open here, and numbers for new ones.
struct OpenFiles: Sendable {
    private var files: [Int64: OpenFile] = [:]
    /// The files without a commit.
    private var newFiles: [VirtualPath: Int64] = [:]
    /// The numbers that are taken for new files and not used yet.
    private var numbers: Range<Int64> = 0..<0
    /// In a shared store, the states that somebody may read rows of.
    private var states: [Int64: [WeakStateRows]] = [:]

    subscript(number: Int64) -> OpenFile? { files[number] }

    func hasNew(_ path: VirtualPath) -> Bool { newFiles[path] != nil }

    /// Opens a file that is stored.
    mutating func open(_ record: FileRecord, _ server: ServerWatch.Known) {
        if let number = newFiles.removeValue(forKey: record.path) { files[number] = nil }
        var file = OpenFile(path: record.path, lease: record.lease, term: server.term, record: record)
        if let known = files[record.number], known.lease == file.lease, known.term == file.term {
            file.openingCount += known.openingCount
        }
        files[record.number] = file
    }

    /// Opens a file that is not stored; nil if there is no number for it.
    mutating func open(new path: VirtualPath, _ server: ServerWatch.Known) -> (number: Int64, lease: Lease)? {
        let first = Lease(epoch: server.epoch)
        if let number = newFiles[path], var file = files[number] {
            file.lease.number = max(first.number, file.lease.number) + 1
            file.term = server.term
            file.record?.lease = file.lease
            files[number] = file
            return (number, file.lease)
        }
        guard let number = takeNumber() else { return nil }
        var record = FileRecord(number: number, path: path)
        record.lease = Lease(first.number + 1)
        newFiles[path] = number
        files[number] = OpenFile(path: path, lease: record.lease, term: server.term, record: record)
        return (number, record.lease)
    }

    mutating func takeNumber() -> Int64? { numbers.popFirst() }

    mutating func add(numbers: Range<Int64>) { self.numbers = numbers }

    mutating func add(_ state: StateRows, of number: Int64) {
        states[number, default: []].removeAll { $0.rows == nil }
        states[number]?.append(WeakStateRows(rows: state))
    }

    /// Records that the states of a file were changed by a commit: those that were as it found them.
    mutating func advanceStates(by commit: Commit) {
        for state in states[commit.file.number] ?? [] {
            state.rows?.advance(from: StatePlace(commit.head), to: StatePlace(commit.newHead))
        }
    }

    mutating func close(_ number: Int64, _ lease: Lease? = nil) {
        guard let file = files[number], lease.map({ $0 == file.lease }) ?? true else { return }
        if lease != nil, file.openingCount > 1 {
            files[number]?.openingCount -= 1
            return
        }
        (files[number], states[number]) = (nil, nil)
        if newFiles[file.path] == number { newFiles[file.path] = nil }
    }

    /// Records what a commit has written.
    mutating func didWrite(_ record: FileRecord) {
        newFiles[record.path] = nil
        // Not if it was closed or opened again in between.
        if files[record.number]?.lease == record.lease { files[record.number]?.record = record }
    }

    /// Records what a reading has found, unless something newer is known.
    mutating func didRead(_ record: FileRecord) {
        guard let file = files[record.number], file.lease == record.lease else { return }
        let isOlder =
            file.record.map { known in
                record.head.version < known.head.version || record.head.bounds < known.head.bounds
                    || record.head.nextIdent < known.head.nextIdent
            } ?? false
        if !isOlder { files[record.number]?.record = record }
    }

    /// Records that nobody knows whether a commit has been written.
    mutating func forgetRecord(of number: Int64) {
        guard let file = files[number], !file.isNew else { return }
        files[number]?.record = nil
    }
}
#endif
