import AnabranchCore
import AnabranchHistory
import ArgumentParser
import Foundation

struct BenchServerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench-server",
        abstract: "Time the server's integration of clients that come back after a time off line.",
        discussion: """
            The clients of one file start from the same state, make their transactions off line and upload them one client
            after the other, to a server in memory: on objects of their own, or all on one list. Prints a JSON line for each
            number of clients with the best of all repeats.

            EXAMPLE
              anabranch bench-server --repeats 5
            """)

    @Option(help: "How many transactions each client makes.")
    var transactions = 100

    @Option(help: "How often each workload is run.")
    var repeats = 3

    func validate() throws {
        guard transactions > 0, repeats > 0 else {
            throw ValidationError("--transactions and --repeats must be 1 or more.")
        }
    }

    func run() throws {
        for clients in [8, 32, 128, 512] { try run("own-objects", ServerWorkload.ownObjects, clients) }
        for clients in [8, 16, 32, 64] { try run("one-list", ServerWorkload.oneList, clients) }
    }

    private func run(_ name: String, _ make: (Int, Int) -> ServerWorkload, _ clients: Int) throws {
        let workload = make(clients, transactions)
        let times = try (0..<repeats).map { _ in try workload.integrate() }
        let seconds = (times.min() ?? .zero) / .seconds(1)
        let count = clients * transactions
        print(
            #"{"workload":"\#(name)","clients":\#(clients),"transactions":\#(count),"#
                + String(format: #""ms":%.3f,"transactions_per_second":%.0f}"#, seconds * 1e3, Double(count) / seconds))
        fflush(nil)
    }
}

/// What the clients of one file upload.
struct ServerWorkload {
    /// In the order in which the clients come back.
    private let uploads: [Upload]

    /// Each transaction creates an object and sets a field of it.
    static func ownObjects(clients: Int, transactions: Int) -> ServerWorkload {
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

    /// Each transaction inserts into a list of 100 elements at the start, or, two times in five, erases from it.
    static func oneList(clients: Int, transactions: Int) -> ServerWorkload {
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
                    cursor: UploadCursor(clientVersion: UInt64(number + 2)),
                    timestamp: UInt64(1000 + number * clients + client), changeset: changeset.bytes)
            }
            return Upload(
                progress: UploadCursor(clientVersion: UInt64(transactions + 1)), changesets: uploaded)
        }
    }

    /// Integrates everything into an empty file, in one commit a client, and says how long that took.
    func integrate() throws -> Duration {
        let file = try SyncedFile(path: VirtualPath("bench"), store: InMemoryStore())
        let idents = try file.allocateIdents(for: Array(repeating: nil, count: uploads.count), at: 1)
        return try ContinuousClock().measure {
            for (client, upload) in zip(idents, uploads) {
                try file.enqueue(upload, from: client.ident)
                for outcome in try file.integrate(at: 1).outcomes {
                    if let refusal = outcome.refusal { throw refusal }
                }
            }
        }
    }
}
