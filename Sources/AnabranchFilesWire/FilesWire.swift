import AnabranchChunks
import AnabranchCore
package import AnabranchHistory
package import AnabranchServer
package import Logging
import NIOHTTP1
import Synchronization

/// The contents of files over HTTP, and the door that keeps account of them (`Spec/Files.md`).
package final class FilesWire: RecordDoor {
    private struct State {
        weak var server: SyncServer?
        /// The synced files in which folders may lie in themselves.
        var looped: Set<VirtualPath> = []
        var isRepairing = false
    }

    let settings: FilesSettings
    let store: any ChunkStore
    let catalog: any HistoryStore & HistoryCatalog
    let authenticator: any Authenticator
    let authorizer: any Authorizer
    let logger: Logger
    let unixSeconds: @Sendable () -> UInt64
    let preciseSeconds: @Sendable () -> Double
    private let state = Mutex(State())

    /// - Parameters:
    ///   - catalog: the store of the server.
    ///   - unixSeconds: the clock, in seconds since 1970.
    ///   - preciseSeconds: the same with their fractions, for the times of writes.
    package init(
        settings: FilesSettings, store: any ChunkStore, catalog: any HistoryStore & HistoryCatalog,
        authenticator: any Authenticator, authorizer: any Authorizer, logger: Logger,
        unixSeconds: @escaping @Sendable () -> UInt64, preciseSeconds: @escaping @Sendable () -> Double
    ) {
        self.settings = settings
        self.store = store
        self.catalog = catalog
        self.authenticator = authenticator
        self.authorizer = authorizer
        self.logger = logger
        self.unixSeconds = unixSeconds
        self.preciseSeconds = preciseSeconds
    }

    /// The routes of its HTTP requests.
    package var routes: [HTTPRoute] {
        [HTTPRoute("/files", to: ChunkEndpoints(self), body: .stream(bytesMax: Manifest.chunkBytes))]
    }

    /// Serves the files of a server. To be called before it runs.
    package func attach(to server: SyncServer) {
        state.withLock { $0.server = server }
        server.attach(self)
    }

    package func observer(of path: VirtualPath) -> (any RecordObserver)? {
        guard path.partition != nil, app(of: path) != nil else { return nil }
        return FilesObserver(
            unixSeconds: unixSeconds, endedUsesMax: settings.endedUsesMax,
            onLoop: { [weak self] in self?.repair(path) })
    }

    package var name: String { "files" }
    package var space: UInt16 { FileRecord.space }
    package var kindNames: [UInt8: String] {
        Dictionary(uniqueKeysWithValues: FileRecord.allCases.map { ($0.rawValue, "\($0)") })
    }
    /// Each request is by itself.
    package var connectionCount: Int { 0 }

    /// The settings of the app of a synced file; nil if it has no files.
    func app(of path: VirtualPath) -> FilesApp? {
        settings.apps[exactly: String(decoding: path.bytes.prefix { $0 != UInt8(ascii: "/") }, as: UTF8.self)]
    }

    // MARK: Reading and writing at the head

    func read<Value: Sendable>(
        _ path: VirtualPath, _ body: @escaping @Sendable (WriteTransaction, PendingRecords) throws -> Value
    ) async throws -> Value? {
        try await server().readHead(of: path, body)
    }

    /// Writes with the milliseconds of the clock: an edit that a client has made before, and brings later, loses.
    func write(
        _ path: VirtualPath, _ body: @escaping @Sendable (WriteTransaction, inout PendingRecords) throws -> Void
    ) async throws {
        let write = HeadWrite(at: ChangesetTime(secondsSince1970: preciseSeconds())) { transaction, records in
            try body(transaction, &records)
            return []
        }
        guard let outcome = try await server().write([write], atHeadOf: path).first else { throw CancellationError() }
        _ = try outcome.get()
    }

    func server() throws -> SyncServer {
        guard let server = state.withLock({ $0.server }) else {
            throw HistoryError(.storeFailed, "there is no server")
        }
        return server
    }

    // MARK: Loops

    /// Has the folders of a synced file looked at, soon and once.
    private func repair(_ path: VirtualPath) {
        let begins = state.withLock { state in
            state.looped.insert(path)
            defer { state.isRepairing = true }
            return !state.isRepairing
        }
        if begins { Task { await repairAll() } }
    }

    private func repairAll() async {
        while true {
            let path = state.withLock { state in
                let path = state.looped.popFirst()
                state.isRepairing = path != nil
                return path
            }
            guard let path else { return }
            do {
                try await repairLoops(of: path)
            } catch {
                logger.warning("files: loops of folders stay", metadata: ["path": "\(path)", "error": "\(error)"])
            }
        }
    }
}
