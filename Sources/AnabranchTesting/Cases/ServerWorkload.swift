import AnabranchCore
import AnabranchHistory

/// The uploads of the clients of one file that come back after a time offline.
public struct ServerWorkload {
    /// The uploads, in the order in which the clients come back.
    private let uploads: [Upload]

    /// A workload in which each transaction creates an object and sets a field of it.
    public static func ownObjects(clients: Int, transactions: Int) -> ServerWorkload {
        ServerWorkload(clients: clients, transactions: transactions) { client in
            (0..<transactions).map { number in
                var changeset = ChangesetWriter()
                let key = client * transactions + number
                changeset.createObject("T", key)
                changeset.update("T", key, "i", to: number)
                return changeset
            }
        }
    }

    /// A workload in which each transaction inserts into a list that has 100 elements at the start or, two times in
    /// five, erases from it.
    public static func oneList(clients: Int, transactions: Int) -> ServerWorkload {
        ServerWorkload(clients: clients, transactions: transactions) { client in
            var random = SeededRandom(seed: UInt64(client))
            var list = ListWriter(size: 100)
            return (0..<transactions).map { number in
                var changeset = ChangesetWriter()
                if list.size > 1, random.below(5) < 2 {
                    list.erase(at: random.below(list.size), to: &changeset)
                } else {
                    list.insert(number, at: random.upTo(list.size), to: &changeset)
                }
                return changeset
            }
        }
    }

    private init(clients: Int, transactions: Int, _ changesets: (Int) -> [ChangesetWriter]) {
        uploads = (0..<clients).map { client in
            let uploaded = changesets(client).enumerated().map { number, changeset in
                UploadedChangeset(
                    cursor: UploadCursor(clientVersion: ClientVersion(number + 2), serverVersion: 1),
                    timestamp: ChangesetTime(1000 + number * clients + client), changeset: changeset.bytes)
            }
            return Upload(
                progress: UploadCursor(clientVersion: ClientVersion(transactions + 1), serverVersion: 1),
                changesets: uploaded)
        }
    }

    /// A server in memory, before the clients come back.
    public struct Server {
        fileprivate let file: SyncedFile
        fileprivate let clients: [ClientFileID]
    }

    /// Makes a server whose file is as all clients have known it.
    public func makeServer() throws -> Server {
        let file = try SyncedFile(path: VirtualPath("bench"), store: InMemoryStore())
        let clients = try file.allocateIdents(for: Array(repeating: nil, count: uploads.count), at: 1).map(\.ident)
        try file.write(at: 1) { start in
            try start.addClass("T", key: "_id", .int)
            try start.addColumn("i", .int, to: "T")
            try start.addClass("Doc", key: "_id", .int)
            try start.addColumn("items", .int, collection: .list, to: "Doc")
            let items = try start.create("Doc", key: 1).list("items")
            for number in 0..<100 { try items.append(.int(Int64(number))) }
        }
        return Server(file: file, clients: clients)
    }

    /// Integrates all uploads, in one commit a client. Each server can do this once.
    ///
    /// - Throws: `HistoryError` if an upload is refused, for instance the second time.
    public func integrate(into server: Server) throws {
        for (client, upload) in zip(server.clients, uploads) { try server.file.integrateAtOnce(upload, from: client) }
    }
}
