import AnabranchCore
@testable import AnabranchHistory
@testable import AnabranchPostgres
import AnabranchPostgresWire
import AnabranchTesting
import Testing

/// The stores of three nodes that share their files: one object in memory, or a connection of each node to one database.
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
