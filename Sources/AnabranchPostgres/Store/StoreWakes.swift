#if canImport(CLibPQ)
import AnabranchPostgresWire
import Foundation
import Synchronization

/// Tells other nodes which files were written, and hears it from them, by NOTIFY. A wake is a hint: where one is lost,
/// the other node looks by itself a second later. It is sent after the commit, on a connection of its own: within one,
/// PostgreSQL would let all commits of the database wait for each other.
final class StoreWakes: Sendable {
    private struct Content {
        /// The files that were written and of which nobody was told.
        var files: Set<Int64> = []
        var isScheduled = false
        var isClosed = false
    }

    private static let channel = "anabranch_wake"
    /// A payload has less than 8,000 bytes.
    private static let filesMax = 300
    private static let secondsAfterFailure = 0.5...1.5

    /// The time without a wake after which the listening connection is tried: of one that was cut nothing else tells.
    private let silentSecondsMax: Int

    private let target: PostgresTarget
    private let connections: ConnectionPool
    private let content = Mutex(Content())
    private let queue = DispatchQueue(label: "anabranch.wakes")
    /// Tells this node's own wakes from others.
    private let node = UUID().uuidString

    init(_ target: PostgresTarget, silentSecondsMax: Int = 10) {
        (self.target, self.silentSecondsMax) = (target, silentSecondsMax)
        connections = ConnectionPool(target, count: 1, idleSeconds: 600)
    }

    /// Lets other nodes look at files, soon.
    func send(_ files: [Int64]) {
        guard !files.isEmpty else { return }
        let isFirst = content.withLock { content in
            content.files.formUnion(files)
            defer { content.isScheduled = true }
            return !content.isScheduled
        }
        if isFirst { queue.async { [self] in sendAll() } }
    }

    private func sendAll() {
        while true {
            let files = content.withLock { content in
                let files = Array(content.files.prefix(Self.filesMax))
                content.files.subtract(files)
                content.isScheduled = !files.isEmpty
                return files
            }
            guard !files.isEmpty else { return }
            let payload = ([node] + files.map(String.init)).joined(separator: " ")
            // One that fails is lost.
            guard let connection = try? connections.take() else { continue }
            _ = try? connection.connection.pipeline([
                PostgresStep("SELECT pg_notify($1, $2)", [.text(Self.channel), .text(payload)])
            ])
            connections.giveBack(connection)
        }
    }

    /// Calls `wake` with the numbers of files that other nodes have written, on a thread of its own, until this is
    /// closed; and with nil whenever wakes may have been missed.
    func listen(_ wake: @escaping @Sendable (Int64?) -> Void) {
        Thread.detachNewThread { [self] in
            while !isClosed {
                do throws(PostgresError) {
                    let connection = try target.connect().connection
                    try connection.execute("LISTEN \(Self.channel)")
                    wake(nil)
                    var silentSeconds = 0
                    while !isClosed {
                        let payloads = try connection.notifications(within: 1)
                        for payload in payloads { report(payload, to: wake) }
                        silentSeconds = payloads.isEmpty ? silentSeconds + 1 : 0
                        if silentSeconds.isMultiple(of: silentSecondsMax), payloads.isEmpty {
                            try connection.query("SELECT 1")
                        }
                    }
                } catch {
                    Thread.sleep(forTimeInterval: .random(in: Self.secondsAfterFailure))
                }
            }
        }
    }

    private func report(_ payload: String, to wake: (Int64?) -> Void) {
        let words = payload.split(separator: " ")
        guard let sender = words.first, sender != node else { return }
        for number in words.dropFirst().compactMap({ Int64($0) }) { wake(number) }
    }

    private var isClosed: Bool { content.withLock { $0.isClosed } }

    /// Ends listening, within a second.
    func close() {
        content.withLock { $0.isClosed = true }
        connections.close()
    }
}
#endif
