import AnabranchHistory
import AnabranchPostgres
import AnabranchSQLite
import AnabranchServer
import Foundation
import Logging

/// The stores of a server: files, accounts, and the keys of its tokens.
struct ServedStores {
    let files: any HistoryStore & HistoryCatalog
    let accounts: any AccountStore
    let keys: KeyFile
    /// Ends all access.
    let close: () throws -> Void

    /// Opens what a configuration names.
    /// - Parameter now: seconds since 1970.
    init(_ configuration: Configuration, now: UInt64, _ logger: Logger) async throws {
        if let database = configuration.database {
            try self.init(database, configuration, now: now, logger)
        } else {
            try await self.init(directory: configuration, now: now, logger)
        }
    }

    private init(directory configuration: Configuration, now: UInt64, _ logger: Logger) async throws {
        let store = try SQLiteStore(directory: configuration.data, options: configuration.store)
        if store.isNew {
            let path = URL(fileURLWithPath: configuration.data, isDirectory: true).path
            logger.notice("there was no store: a new one is made", metadata: ["data": "\(path)"])
        }
        if let shards = configuration.shards, shards != store.shardCount {
            logger.notice(
                "the store keeps the shards that it was made with", metadata: ["shards": "\(store.shardCount)"])
        }
        let accounts = try SQLiteAccountStore(directory: configuration.data)
        keys = try await KeyFile(path: configuration.keyPath, now: now, logger: logger)
        (files, self.accounts) = (store, accounts)
        close = {
            try accounts.close()
            try store.close()
        }
    }

    #if canImport(CLibPQ)
    private init(_ database: String, _ configuration: Configuration, now: UInt64, _ logger: Logger) throws {
        let suspects = try SuspectFile.inDirectory(configuration.data)
        var options = PostgresStore.Options()
        if let days = configuration.explainDays { options.explainDays = days }
        options.suspects = suspects
        options.isShared = configuration.isShared
        let store = try PostgresStore(database, options: options)
        if store.isNew { logger.notice("there was no store in the database: a new one is made") }
        let accounts = PostgresAccountStore(store)
        keys = KeyFile(try accounts.signingKeys(orFirst: KeyFile.newKey(now: now)))
        (files, self.accounts) = (store, accounts)
        close = {
            accounts.close()
            store.close()
        }
    }
    #else
    private init(_ database: String, _ configuration: Configuration, now: UInt64, _ logger: Logger) throws {
        throw InputError.noPostgres
    }
    #endif
}

/// The store in a PostgreSQL database, to be read.
func databaseSnapshot(of database: String) throws -> any CheckedSnapshot {
    #if canImport(CLibPQ)
    return try PostgresReader(database)
    #else
    throw InputError.noPostgres
    #endif
}

extension InputError {
    static let noPostgres = InputError(
        description: """
            store: this command was built without PostgreSQL: build it with the package trait Postgres, or use a data \
            directory
            """)
}

extension Configuration {
    /// Refuses what works on data directories alone.
    func requireDirectory() throws {
        guard database != nil else { return }
        throw InputError(
            description: """
                the store is in PostgreSQL, and this command works on data directories: pg_dump makes backups, and a \
                running server answers anabranch admin
                """)
    }
}
