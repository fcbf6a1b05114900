import AnabranchCore
import AnabranchProtocol
import AnabranchTestClient
import NIOCore
import Synchronization

/// The changesets that a server has given the clients of one file, client by client.
struct StoreReading: Sendable {
    /// A changeset of a DOWNLOAD, without what depends on its reader.
    struct Delivery: Equatable, Sendable {
        var version: ServerVersion
        var tag: OriginTag
        var changeset: [UInt8]

        init(version: ServerVersion, tag: OriginTag, changeset: [UInt8]) {
            (self.version, self.tag, self.changeset) = (version, tag, changeset)
        }

        init(_ downloaded: DownloadedChangeset) {
            self.init(
                version: downloaded.cursor.serverVersion, tag: downloaded.tag, changeset: downloaded.changeset)
        }
    }

    /// The changesets in the order in which the clients came; if the server gave no more, it stopped at the last
    /// client.
    var deliveries: [[Delivery]] = []
    /// The reason why there is no more; nil if every client has got everything.
    var refusal: TestClientError?

    /// The first wrong data or answer that a client got; nil if there is none. A client may get less than there is if
    /// an error of the protocol says so.
    ///
    /// - Parameter expected: the reading of the store without damage.
    func problem(expected: StoreReading) -> String? {
        if let refusal {
            guard let told = refusal.told else { return "a client is told no error: \(refusal)" }
            guard !told.action.isReset else {
                return "a client is told to reset: error \(told.code.rawValue), \(told.message)"
            }
        }
        for (client, (given, written)) in zip(deliveries, expected.deliveries).enumerated() {
            let isAll = refusal == nil || client < deliveries.count - 1
            for (number, (one, other)) in zip(given, written).enumerated() where one != other {
                return "client \(client) is given another changeset \(number) than was written (version "
                    + "\(other.version.rawValue))"
            }
            if given.count > written.count {
                return "client \(client) is given \(given.count) changesets, of \(written.count)"
            }
            if isAll, given.count < written.count {
                return "client \(client) is given \(given.count) of \(written.count) changesets as if they were all"
            }
        }
        return nil
    }

    /// Connects four clients to a file, one after the other: one that reads everything, the two that left early, each
    /// with a change to merge, and one that reads everything again.
    static func read(
        _ file: StoreHistory.File, from target: SyncTarget, on eventLoop: any EventLoop
    ) async -> StoreReading {
        var reading = StoreReading()
        for memory in [nil, file.early, file.merged, nil] {
            let client = LoadClient(of: file.name, on: eventLoop, memory: memory ?? LoadClient.Memory())
            let given = Mutex<[Delivery]>([])
            await client.observe { message, _ in
                let deliveries = message.download.changesets.map(Delivery.init)
                given.withLock { $0 += deliveries }
            }
            do {
                let connection = try await TestConnection.opened(to: target, on: eventLoop)
                if memory == nil {
                    try await client.join(connection)
                } else {
                    try await client.identify(on: connection, uploading: [file.lateChange], timestamp: file.lateTime)
                    let version = await client.uploadedVersion
                    _ = try await client.wait { $0.isAcknowledged(version) }
                    try await client.catchUp()
                }
            } catch {
                reading.refusal = error as? TestClientError ?? TestClientError("\(error)")
            }
            await client.leave()
            reading.deliveries.append(given.withLock { $0 })
            if reading.refusal != nil { break }
        }
        return reading
    }
}

extension ErrorCode.Action {
    /// True if the client throws away what it has, with everything that it has not uploaded.
    fileprivate var isReset: Bool { self == .clientReset || self == .clientResetNoRecovery || self == .deleteRealm }
}
