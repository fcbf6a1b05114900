import AnabranchCore
@testable import AnabranchHistory
@testable import AnabranchPostgres
import AnabranchPostgresWire
import AnabranchTesting
import Testing

/// The stores of three nodes that share their files: one object in memory, or one of each node over one database.
final class SharedStores {
    enum Kind: String, CaseIterable, CustomTestStringConvertible {
        case memory
        case postgres = "PostgreSQL"

        var testDescription: String { rawValue }
    }

    private static let count = 3
    private let stores: [any HistoryStore & HistoryCatalog]
    private let database: TestDatabase?

    init(_ kind: Kind) throws {
        guard kind == .postgres else {
            stores = Array(repeating: InMemoryStore(isShared: true), count: Self.count)
            database = nil
            return
        }
        let database = try TestDatabase()
        self.database = database
        stores = try (0..<Self.count).map { _ in
            try PostgresStore(database, writers: 2, isShared: true)
        }
    }

    deinit { for case let store as PostgresStore in stores { store.close() } }

    /// The store of a node, numbered from 0; a node that is started again has a number that is greater by the count.
    subscript(node: UInt64) -> any HistoryStore { stores[Int(node % UInt64(Self.count))] }

    var catalog: any HistoryCatalog { stores[0] }

    /// Does to all files what the restoration of a backup does.
    func restore() throws {
        if let store = stores[0] as? InMemoryStore {
            var random = SeededRandom(seed: 1)
            store.renewSalts(using: &random)
        }
        guard let database else { return }
        try PostgresConnection(database.url).execute("UPDATE anabranch_store.synced_file SET lease = lease + 1")
    }
}

/// A client of one file that can come to any node. Each of its changesets makes an object.
final class RoamingClient {
    let file: SaltedFileID
    private(set) var count: ClientVersion = 0

    init(at node: SyncedFile) throws { file = try node.allocateIdent() }

    func come(to node: SyncedFile) throws {
        _ = try node.identify(
            IdentRequest(file: file, download: DownloadCursor(), latest: SaltedVersion(), subscriptions: nil))
    }

    /// - Parameter again: whether it is the last one, which the client does not know to be integrated.
    func upload(to node: SyncedFile, again: Bool = false) throws {
        if !again { count += 1 }
        var writer = ChangesetWriter()
        writer.create(Int64(file.ident.rawValue * 1_000 + count.rawValue))
        let bytes = count == 1 ? ChangesetWriter.schema : writer.bytes
        try node.enqueue(Upload([bytes], from: count), from: file.ident)
    }
}
