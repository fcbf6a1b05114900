import AnabranchHistory
import Foundation
import GRDB

/// The synced files of all shards in the order of their paths. Reads them in pieces, without transactions, and so takes
/// the same memory for any number of them.
struct FileListing {
    /// A file's name and place.
    struct Element {
        let id: SyncedFileID
        let path: VirtualPath
    }

    private static let pieceCount = 500

    private let databases: [any DatabaseReader]
    /// The elements that were read of each shard and not handed out yet; nil if it has no more.
    private var pieces: [ArraySlice<Element>?]

    /// - Parameter databases: the databases of the shards.
    init(_ databases: [any DatabaseReader]) throws(HistoryError) {
        self.databases = databases
        pieces = []
        for shard in databases.indices { pieces.append(try piece(of: shard, after: nil)) }
    }

    /// - Throws: `storeDamaged`, `storeFailed`.
    mutating func next() throws(HistoryError) -> Element? {
        var first: (shard: Int, element: Element)?
        for (shard, piece) in pieces.enumerated() {
            guard let element = piece?.first else { continue }
            if let first, !element.path.bytes.lexicographicallyPrecedes(first.element.path.bytes) { continue }
            first = (shard, element)
        }
        guard let (shard, element) = first else { return nil }
        pieces[shard]?.removeFirst()
        if pieces[shard]?.isEmpty == true { pieces[shard] = try piece(of: shard, after: element.path) }
        return element
    }

    private func piece(of shard: Int, after path: VirtualPath?) throws(HistoryError) -> ArraySlice<Element>? {
        try translatingErrors(in: DataDirectory.shardName(shard)) {
            try databases[shard].unsafeRead { db in
                let condition = path == nil ? "" : "WHERE path > ?"
                let arguments: StatementArguments = path.map { [Data($0.bytes), Self.pieceCount] } ?? [Self.pieceCount]
                let sql = "SELECT id, path FROM synced_file \(condition) ORDER BY path LIMIT ?"
                let elements = try Row.fetchAll(db, sql: sql, arguments: arguments).map { row in
                    let id = SyncedFileID(Int64(bitPattern: try row.number(0)), shard: shard)
                    return Element(id: id, path: VirtualPath((try? row.bytes(1)) ?? []))
                }
                guard let last = elements.last else { return nil }
                guard last.path.follows(path) else {
                    let name = DataDirectory.shardName(shard)
                    throw HistoryError(.storeDamaged, "\(name): the index of the files' names is out of order")
                }
                return elements[...]
            }
        }
    }
}

extension VirtualPath {
    /// True if it comes after the path up to which names were read; otherwise they would be read again for ever.
    func follows(_ path: VirtualPath?) -> Bool { path.map { $0.bytes.lexicographicallyPrecedes(bytes) } ?? true }
}
