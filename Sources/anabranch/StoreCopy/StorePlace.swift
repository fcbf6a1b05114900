import AnabranchHistory
import AnabranchPostgres
import AnabranchSQLite
import AnabranchServer
import ArgumentParser
import Foundation

/// A side of `anabranch store copy`.
enum StorePlace: ExpressibleByArgument {
    case directory(String)
    /// It may have a password.
    case database(String)

    init?(argument: String) {
        guard !argument.isEmpty else { return nil }
        let isDatabase = argument.wholeMatch(of: /postgres(ql)?:\/\/.+/) != nil
        self = isDatabase ? .database(argument) : .directory(argument)
    }

    var isDatabase: Bool { if case .database = self { true } else { false } }

    /// The place for people, without a password.
    var name: String {
        switch self {
        case .directory(let path): path
        case .database(let url): Self.withoutPassword(url) ?? "the PostgreSQL database"
        }
    }

    /// The place as the other store keeps it, when nobody knows any more where the command was run: the whole path of a
    /// directory.
    var wholeName: String {
        guard case .directory(let path) = self else { return name }
        return URL(fileURLWithPath: path, isDirectory: true).standardizedFileURL.path
    }

    private static func withoutPassword(_ url: String) -> String? {
        guard var parts = URLComponents(string: url) else { return nil }
        parts.password = nil
        parts.query = nil
        return parts.string
    }

    private static func keyPath(in directory: String) -> String {
        URL(fileURLWithPath: directory, isDirectory: true).appendingPathComponent("keys.json").path
    }
}

/// The store that is copied.
struct CopySource {
    let files: any CopyableStore
    let accounts: any CopyableAccountStore
    let keys: [SigningKey]
}

/// The store that becomes a copy.
struct CopyTarget {
    let files: any CopyableStore
    let accounts: any CopyableAccountStore
    let addKeys: ([SigningKey]) throws -> Void
    /// Makes everything durable, and checks it as `anabranch verify` does; nothing is written afterwards.
    /// - Returns: the damage outside of files.
    let check: ((VerifiedFile) -> Void) throws -> [StoreDamage]
    /// Lets servers start on it.
    let finish: () throws -> Void
}

extension StorePlace {
    /// Opens the store, which nobody else may use until it is closed after `body`.
    /// - Parameter body: returns the place of the store that has the place of this one from now on, so that servers are
    ///   kept from this one; nil if there is none.
    func withSource(_ body: (CopySource) throws -> String?) throws {
        switch self {
        case .directory(let path):
            let store = try SQLiteStore(copiedFrom: path), accounts = try SQLiteAccountStore(directory: path)
            let keys = try KeyFile.signingKeys(path: Self.keyPath(in: path))
            let place = try body(CopySource(files: store, accounts: accounts, keys: keys))
            try accounts.close()
            if let place { try store.setCopied(to: place) }
            try store.close()
        case .database(let url): try Self.withSource(inDatabase: url, body)
        }
    }

    func makeTarget(isShared: Bool, shards: Int?) throws -> CopyTarget {
        switch self {
        case .directory(let path):
            var options = SQLiteStore.Options()
            if let shards { options.shards = shards }
            let store = try SQLiteStore(copyIn: path, options: options)
            let accounts = try SQLiteAccountStore(directory: path)
            return CopyTarget(
                files: store, accounts: accounts,
                addKeys: { if !$0.isEmpty { try KeyFile.make($0, path: Self.keyPath(in: path)) } },
                check: { report in
                    try accounts.close()
                    try store.closeCopy()
                    let verification = try StoreVerification(ofCopy: store)
                    let damages = try verification.checkDatabase()
                    try verification.checkFiles(report)
                    return damages
                }, finish: { try store.finishCopy() })
        case .database(let url): return try Self.makeTarget(inDatabase: url, isShared: isShared)
        }
    }

    /// Copies the contents of files from one directory to another; those of a server with a database stay where they
    /// are.
    func copyContents(to target: StorePlace) throws {
        guard case .directory(let path) = self, case .directory(let other) = target else { return }
        _ = try ChunkFolder(of: path).copy(to: other)
    }

    // MARK: PostgreSQL

    #if canImport(CLibPQ)
    private static func withSource(
        inDatabase url: String, _ body: (CopySource) throws -> String?
    ) throws {
        let written = try PostgresStore.requireUnused(url)
        let place = try PostgresReader(url).copying { store -> String? in
            let accounts = PostgresAccountStore(store)
            defer { accounts.close() }
            return try body(CopySource(files: store, accounts: accounts, keys: try accounts.signingKeys()))
        }
        guard let place else { return }
        guard try PostgresStore.requireUnused(url) == written else {
            throw HistoryError(.storeUnusable, "the database that was copied has been written to meanwhile")
        }
        try PostgresStore.setCopied(url, to: place)
    }

    private static func makeTarget(inDatabase url: String, isShared: Bool) throws -> CopyTarget {
        try PostgresStore.requireUnused(url)
        var options = PostgresStore.Options()
        options.isShared = isShared
        let store = try PostgresStore(copyIn: url, options: options), accounts = PostgresAccountStore(store)
        return CopyTarget(
            files: store, accounts: accounts, addKeys: { try accounts.insert($0) },
            check: { report in
                let reader = try PostgresReader(copyIn: url), damages = try reader.checkStore()
                try reader.forEachFile { report(try reader.check($0)) }
                return damages
            },
            finish: {
                accounts.close()
                try store.finishCopy()
                store.close()
            })
    }
    #else
    private static func withSource(
        inDatabase url: String, _ body: (CopySource) throws -> String?
    ) throws {
        throw InputError.noPostgres
    }

    private static func makeTarget(inDatabase url: String, isShared: Bool) throws -> CopyTarget {
        throw InputError.noPostgres
    }
    #endif
}
