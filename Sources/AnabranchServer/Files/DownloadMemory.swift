import AnabranchCore
import AnabranchHistory

/// Keeps the bodies of DOWNLOADs within memory until the sockets of their readers have taken them.
///
/// A short body needs no permit. So a reader that follows a file, or that reads a small one, does not wait for readers
/// that take a lot and read slowly; and while there is no room, those too read on in small steps.
struct DownloadMemory: Sendable {
    /// The longest body without a permit, in bytes before it is deflated.
    static let shortBytesMax = 64 << 10

    enum Outcome<Made> {
        /// The result; a long body has a permit.
        case made(Made, MemoryPermit?)
        /// There is no room, not even for one changeset: the request will be submitted again, as long as the wait is
        /// kept.
        case waiting(MemoryWait)

        var wait: MemoryWait? { if case .waiting(let wait) = self { wait } else { nil } }
    }

    let budget: MemoryBudget
    /// The longest body without a permit in this file, in bytes.
    var shortBytesMax = Self.shortBytesMax
    /// Submits a request to its file again, with its permit.
    let resubmit: @Sendable (FileRequest) -> Void

    /// Scans as much of the log as there is room for.
    func download(
        _ source: DownloadScan, after cursor: DownloadCursor, for request: FileRequest, bytesSoftMax: Int
    ) throws(HistoryError) -> Outcome<Download> {
        let download = try source.download(after: cursor, byteBudget: byteBudget(of: request, bytesSoftMax))
        if let permit = request.permit { return .made(download, permit) }
        let bytes = download.bytes(upTo: .max)
        guard bytes > shortBytesMax else { return .made(download, nil) }
        if let permit = budget.permit(for: bytes) { return .made(download, permit) }
        let shortBytes = download.bytes(upTo: shortBytesMax)
        if shortBytes > 0 { return .made(try source.download(after: cursor, byteBudget: shortBytes - 1), nil) }
        return .waiting(wait(for: bytes, request))
    }

    /// The approximate length at which a body ends, in bytes.
    func byteBudget(of request: FileRequest, _ bytesSoftMax: Int) -> Int {
        if let permit = request.permit { return permit.bytes - 1 }
        let isLong = request.mayBeLong && budget.hasRoom(for: bytesSoftMax)
        return isLong ? bytesSoftMax : min(bytesSoftMax, shortBytesMax)
    }

    /// Room for a body that cannot be shorter.
    func room(for bytes: Int, _ request: FileRequest) -> Outcome<Void> {
        if bytes <= shortBytesMax { return .made((), request.permit) }
        if let permit = request.permit ?? budget.permit(for: bytes) { return .made((), permit) }
        return .waiting(wait(for: bytes, request))
    }

    private func wait(for bytes: Int, _ request: FileRequest) -> MemoryWait {
        budget.wait(for: bytes) { permit in
            var request = request
            request.permit = permit
            resubmit(request)
        }
    }
}

extension Download {
    /// The total size of the first changesets that have at most `bytesMax` bytes together.
    fileprivate func bytes(upTo bytesMax: Int) -> Int {
        var bytes = 0
        for changeset in changesets {
            guard changeset.changeset.count <= bytesMax - bytes else { break }
            bytes += changeset.changeset.count
        }
        return bytes
    }
}
