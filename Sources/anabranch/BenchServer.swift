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
