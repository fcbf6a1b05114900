import AnabranchTesting
import ArgumentParser
import Foundation

struct BenchServerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "server",
        abstract: "Time the server's integration of clients that come back after a time offline.",
        discussion: """
            The clients of one file start from the same state, make their transactions offline and upload them one \
            client after the other, to a server in memory: on objects of their own, or all on one list.

            Prints a JSON line for each number of clients: "ms", the time that the server takes to integrate all of \
            it, and "transactions_per_second" are of the median of all repeats, "best_ms" is the shortest time.

            EXAMPLES
              anabranch-lab bench server --repeats 5
              anabranch-lab bench server --workload one-list --clients 64 128
            """)

    enum Workload: String, CaseIterable, ExpressibleByArgument {
        case ownObjects = "own-objects"
        case oneList = "one-list"

        var clients: [Int] {
            switch self {
            case .ownObjects: [8, 32, 128, 512]
            case .oneList: [8, 16, 32, 64]
            }
        }

        func make(clients: Int, transactions: Int) -> ServerWorkload {
            switch self {
            case .ownObjects: .ownObjects(clients: clients, transactions: transactions)
            case .oneList: .oneList(clients: clients, transactions: transactions)
            }
        }
    }

    @Option(help: "Only this workload.")
    var workload: Workload?

    @Option(parsing: .upToNextOption, help: "Only these numbers of clients.")
    var clients: [Int] = []

    @Option(help: "How many transactions each client makes.")
    var transactions = 100

    @Option(help: "How often each workload is run.")
    var repeats = 3

    func validate() throws {
        guard transactions > 0, repeats > 0, clients.allSatisfy({ $0 > 0 }) else {
            throw ValidationError("--transactions, --repeats and --clients must be 1 or more.")
        }
    }

    func run() throws {
        BenchEnvironment.show()
        for workload in Workload.allCases where self.workload ?? workload == workload {
            for clients in clients.isEmpty ? workload.clients : clients { try run(workload, clients) }
        }
    }

    private func run(_ workload: Workload, _ clients: Int) throws {
        let uploads = workload.make(clients: clients, transactions: transactions)
        let times = try (0..<repeats).map { _ in
            let server = try uploads.makeServer()
            return try ContinuousClock().measure { try uploads.integrate(into: server) }
        }
        let count = clients * transactions
        print(
            #"{"workload":"\#(workload.rawValue)","clients":\#(clients),"transactions":\#(count),"#
                + String(
                    format: #""ms":%.3f,"best_ms":%.3f,"transactions_per_second":%.0f}"#, times.median.inMilliseconds,
                    (times.min() ?? .zero).inMilliseconds, Double(count) / times.median.inSeconds))
        fflush(nil)
    }
}
