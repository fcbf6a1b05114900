import AnabranchCore
import AnabranchTesting
import ArgumentParser
import Foundation

struct BenchRowsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rows",
        abstract: "Measure what one small change of a large object writes where its state is stored.",
        discussion: """
            Prints a JSON line a workload, medians of all changes, each of which is a commit: the bytes of the rows \
            that are written and how much the write-ahead log of SQLite grows; and the milliseconds of processor that \
            a change takes with its commit, without the flush to the disk, with the state in memory (warm), and with \
            nothing in memory (cold).
              counter        an Int beside a Binary of 4 MiB is counted up
              values         an Int beside a dictionary of four Binaries of 4 MiB is counted up
              list           an element is inserted at a random place of a list of Ints
              dictionary     an entry of a dictionary of 10,000 is set
              links          an object with ten links to it is deleted; there are 100,000 that may link to it

            EXAMPLE
              anabranch-lab bench rows --list 1000000
            """)

    @Option(help: "How many elements the list has.")
    var list = 1_000_000

    @Option(help: "How many changes are made, half of them with nothing in memory.")
    var changes = 40

    func validate() throws {
        guard list > 0, changes > 1 else {
            throw ValidationError("The list must have an element, and there must be two changes.")
        }
    }

    func run() throws {
        BenchEnvironment.show()
        for workload in RowsWorkload.allCases {
            try StoredState.withTemporary { stored in
                try stored.write { try workload.begin($0, listCount: list) }
                print(try figures(workload, &stored))
            }
            fflush(nil)
        }
    }

    private func figures(_ workload: RowsWorkload, _ stored: inout StoredState) throws -> String {
        var random = SeededRandom(seed: 1)
        var (warm, cold): ([Double], [Double]) = ([], [])
        var (rowBytes, logBytes): ([Int], [Int]) = ([], [])
        for number in 0..<changes {
            let isCold = number.isMultiple(of: 2)
            if isCold { stored.state.unload() }
            try stored.emptyLog()
            let place = random.next()
            let start = ProcessorTime.milliseconds
            rowBytes.append(try stored.write { try workload.change($0, number, at: place) })
            let duration = ProcessorTime.milliseconds - start
            if isCold { cold.append(duration) } else { warm.append(duration) }
            logBytes.append(stored.logBytes)
        }
        return String(
            format: #"{"name":"%@","row_bytes":%ld,"log_bytes":%ld,"warm_ms":%.3f,"cold_ms":%.3f}"#, workload.rawValue,
            rowBytes.sorted()[changes / 2], logBytes.sorted()[changes / 2], warm.sorted()[warm.count / 2],
            cold.sorted()[cold.count / 2])
    }
}

private enum RowsWorkload: String, CaseIterable {
    case counter, values, list, dictionary, links

    private static let binary = Payload.binary(Array(repeating: 7, count: 4 << 20))

    func begin(_ transaction: WriteTransaction, listCount: Int) throws {
        try transaction.addClass("Doc", key: "_id", .int)
        try transaction.addColumn("i", .int, to: "Doc")
        try transaction.addColumn("data", .binary, to: "Doc")
        try transaction.addColumn("items", .int, collection: .list, to: "Doc")
        try transaction.addColumn("entries", .null, collection: .dictionary, to: "Doc")
        try transaction.addLink("parent", to: "Doc", of: "Doc")
        let object = try transaction.create("Doc", key: 1)
        switch self {
        case .counter: try object.set("data", to: Self.binary)
        case .values: for key in 1...4 { try object.dictionary("entries").set(Self.binary, for: "\(key)") }
        case .list:
            let items = try object.list("items")
            for number in 0..<listCount { try items.append(.int(Int64(number))) }
        case .dictionary:
            let entries = try object.dictionary("entries")
            for number in 0..<10_000 { try entries.set(.string(Array("value \(number)".utf8)), for: "key \(number)") }
        case .links:
            for number: Int64 in 2...10_001 {
                let parent = try transaction.create("Doc", key: .int(number))
                for child: Int64 in 1...10 {
                    try transaction.create("Doc", key: .int(number * 1_000 + child)).set("parent", to: parent.link)
                }
            }
        }
    }

    func change(_ transaction: WriteTransaction, _ number: Int, at place: UInt64) throws {
        guard let object = try transaction.object("Doc", key: 1) else { return }
        switch self {
        case .counter, .values: try object.add(1, to: "i")
        case .list:
            let items = try object.list("items")
            try items.insert(.int(Int64(number)), at: Int(place % UInt64(try items.count)))
        case .dictionary:
            let value = Payload.string(Array("other value \(number)".utf8))
            try object.dictionary("entries").set(value, for: "key \(place % 10_000)")
        case .links:
            guard let parent = try transaction.object("Doc", key: .int(2 + Int64(number))) else { return }
            try transaction.delete(parent)
        }
    }
}
