import AnabranchChunks
import Foundation
import Synchronization

/// The transfers of contents that are under way, and what keeps others from it.
final class TransferBoard: Sendable {
    struct Transfer: Equatable, Sendable {
        let content: ChunkHash
        var progress = FileProgress()
        var isMoving = false
        var issue: FileIssue?
    }

    /// One content on its way: up, of a file; or down.
    enum Way: Hashable, Sendable {
        case upload(UUID)
        case download(ChunkHash)
    }

    /// How many chunks were read and written on this device for copies: a sign of life where nothing is transferred.
    let localChunks = Mutex<UInt64>(0)
    private let transfers = Mutex<[Way: Transfer]>([:])
    private let onChange: @Sendable (Way) -> Void

    init(onChange: @escaping @Sendable (Way) -> Void) { self.onChange = onChange }

    func transfer(_ way: Way) -> Transfer? { transfers.withLock { $0[way] } }

    /// The numbers of uploads and downloads that move, and their progress together.
    var moving: (up: Int, down: Int, progress: FileProgress) {
        transfers.withLock { transfers in
            transfers.reduce(into: (0, 0, FileProgress())) { sum, next in
                guard next.value.isMoving else { return }
                if case .upload = next.key { sum.0 += 1 } else { sum.1 += 1 }
                sum.2.transferred += next.value.progress.transferred
                sum.2.total += next.value.progress.total
            }
        }
    }

    var issues: [FileIssue] { transfers.withLock { $0.values.compactMap(\.issue) } }

    /// The contents whose download has stopped.
    var stoppedDownloads: [ChunkHash] {
        transfers.withLock { transfers in
            transfers.compactMap { way, transfer in
                if case .download(let content) = way, !transfer.isMoving { content } else { nil }
            }
        }
    }

    var uploadIssues: [FileIssue] {
        transfers.withLock { transfers in
            transfers.compactMap { way, transfer in if case .upload = way { transfer.issue } else { nil } }
        }
    }

    /// Begins the transfer of a content, or goes on with it.
    func begin(_ way: Way, of content: ChunkHash, transferred: Int64, total: Int64) {
        // A file may have been written again before its content was up.
        transfers.withLock { if $0[way]?.content != content { $0[way] = nil } }
        change(way, of: content) { transfer in
            transfer.progress.total = total
            transfer.progress.transferred = max(transfer.progress.transferred, min(transferred, total))
            transfer.isMoving = true
        }
    }

    func advance(_ way: Way, of content: ChunkHash, by bytes: Int) {
        change(way, of: content) { transfer in
            transfer.progress.transferred = min(transfer.progress.total, transfer.progress.transferred + Int64(bytes))
            transfer.issue = nil
        }
    }

    func stop(_ way: Way, of content: ChunkHash, because issue: FileIssue) {
        change(way, of: content) { transfer in
            transfer.isMoving = false
            transfer.issue = issue
        }
    }

    func end(_ way: Way) {
        transfers.withLock { _ = $0.removeValue(forKey: way) }
        onChange(way)
    }

    /// Does nothing if another content has taken its place.
    private func change(_ way: Way, of content: ChunkHash, _ body: (inout Transfer) -> Void) {
        transfers.withLock { transfers in
            var transfer = transfers[way] ?? Transfer(content: content)
            guard transfer.content == content else { return }
            body(&transfer)
            transfers[way] = transfer
        }
        onChange(way)
    }
}
