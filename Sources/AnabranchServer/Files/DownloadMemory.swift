import AnabranchCore
import AnabranchHistory

/// Sees to it that the bodies of DOWNLOADs fit into memory until the sockets of their readers have taken them.
///
/// A short body needs no permit. So who follows a file, or what little there is of it, does not wait for those that
/// take a lot and read slowly; and while there is no room, those read on in small steps, too.
struct DownloadMemory: Sendable {
    /// What a body may have without a permit, in bytes before it is deflated.
    static let shortBytesMax = 64 << 10

    enum Outcome<Made> {
        /// What is long has a permit.
        case made(Made, MemoryPermit?)
        /// There is no room, not even for one changeset: the request will be submitted again, if the wait is kept.
        case waiting(MemoryWait)

        var wait: MemoryWait? { if case .waiting(let wait) = self { wait } else { nil } }
    }

    let budget: MemoryBudget
    /// Brings a request before its file again, with its permit.
    let resubmit: @Sendable (FileRequest) -> Void

    /// Scans as much of the log as there is room for.
    func download(
        _ source: DownloadScan, after cursor: DownloadCursor, for request: FileRequest, bytesSoftMax: Int
    ) throws(HistoryError) -> Outcome<Download> {
        let download = try source.download(after: cursor, byteBudget: byteBudget(of: request, bytesSoftMax))
        if let permit = request.permit { return .made(download, permit) }
        let bytes = download.bytes(upTo: .max)
        guard bytes > Self.shortBytesMax else { return .made(download, nil) }
        if let permit = budget.permit(for: bytes) { return .made(download, permit) }
        let shortBytes = download.bytes(upTo: Self.shortBytesMax)
        if shortBytes > 0 { return .made(try source.download(after: cursor, byteBudget: shortBytes - 1), nil) }
        return .waiting(wait(for: bytes, request))
    }

    /// At about how many bytes a body ends.
    func byteBudget(of request: FileRequest, _ bytesSoftMax: Int) -> Int {
        if let permit = request.permit { return permit.bytes - 1 }
        let isLong = request.mayBeLong && budget.hasRoom(for: bytesSoftMax)
        return isLong ? bytesSoftMax : min(bytesSoftMax, Self.shortBytesMax)
    }

    /// Room for a body that cannot be shorter.
    func room(for bytes: Int, _ request: FileRequest) -> Outcome<Void> {
        if bytes <= Self.shortBytesMax { return .made((), request.permit) }
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
    /// The size of so many of the first changesets as have `bytesMax` bytes together.
    fileprivate func bytes(upTo bytesMax: Int) -> Int {
        var bytes = 0
        for changeset in changesets {
            guard changeset.changeset.count <= bytesMax - bytes else { break }
            bytes += changeset.changeset.count
        }
        return bytes
    }
}
