import AnabranchCore
import AnabranchProtocol
import ArgumentParser
import Foundation

struct BenchGenerationCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "generation",
        abstract: "Measure a bootstrap generation: the changesets that make a whole state out of nothing.",
        discussion: """
            Prints a JSON line a workload: how many objects there are; the bytes of the rows in which the state is \
            stored; how many changesets the generation has, and their bytes, as they are and deflated one by one; and \
            the milliseconds of processor that it takes to read the rows, of which nothing is in memory, and to make \
            the changesets, and to deflate them, medians of all repeats.
              objects        objects of twelve columns: scalars, a link, a list, a dictionary, an embedded object
              list           one object with a list of Ints, as many as there are objects in the other

            EXAMPLE
              anabranch-lab bench generation --objects 10000
            """)

    @Option(help: "How many objects there are, and how many elements the list has.")
    var objects = 10_000

    @Option(help: "At how many bytes a changeset ends; 1 makes one of each instruction.")
    var cut = BootstrapChangesets.usualBytes

    @Option(help: "How hard zlib tries, from 1 to 9.")
    var level = 6

    @Option(help: "How often each generation is made.")
    var repeats = 5

    func validate() throws {
        guard objects > 0, cut > 0, repeats > 0 else { throw ValidationError("All numbers must be 1 or more.") }
        guard 1...9 ~= level else { throw ValidationError("The level is from 1 to 9.") }
    }

    func run() throws {
        BenchEnvironment.show()
        for workload in GenerationWorkload.allCases {
            try StoredState.withTemporary { stored in
                try workload.write(objects, to: &stored)
                print(try figures(workload, &stored).jsonLine())
            }
            fflush(nil)
        }
    }

    private struct Figures: Encodable {
        var name: String
        var objects: Int
        var stateBytes = 0
        var changesets = 0
        var generationBytes = 0
        var deflatedBytes = 0
        var makeMs = 0.0
        var deflateMs = 0.0
    }

    private func figures(_ workload: GenerationWorkload, _ stored: inout StoredState) throws -> Figures {
        var (making, deflating): ([Double], [Double]) = ([], [])
        var figures = Figures(name: workload.rawValue, objects: workload == .list ? 1 : objects)
        figures.stateBytes = try stored.rowBytes
        for _ in 0..<repeats {
            stored.state.unload()
            var generation = BootstrapChangesets(of: stored.state, endingAt: cut)
            (figures.changesets, figures.generationBytes, figures.deflatedBytes) = (0, 0, 0)
            var (makeMs, deflateMs) = (0.0, 0.0)
            var start = ProcessorTime.milliseconds
            while let changeset = try generation.next() {
                let made = ProcessorTime.milliseconds
                makeMs += made - start
                figures.changesets += 1
                figures.generationBytes += changeset.count
                figures.deflatedBytes += (BodyCompression.deflate(changeset, level: level) ?? changeset).count
                start = ProcessorTime.milliseconds
                deflateMs += start - made
            }
            making.append(makeMs)
            deflating.append(deflateMs)
        }
        figures.makeMs = (making.sorted()[repeats / 2] * 10).rounded() / 10
        figures.deflateMs = (deflating.sorted()[repeats / 2] * 10).rounded() / 10
        return figures
    }
}

private enum GenerationWorkload: String, CaseIterable {
    case objects, list

    /// The number of objects that are written in a commit.
    private static let commitCount = 1_000

    func write(_ count: Int, to stored: inout StoredState) throws {
        switch self {
        case .objects:
            try stored.write { try addClasses($0) }
            for start in stride(from: 0, to: count, by: Self.commitCount) {
                try stored.write { transaction in
                    for number in start..<min(start + Self.commitCount, count) {
                        try create(Int64(number), in: transaction)
                    }
                }
            }
        case .list:
            try stored.write { transaction in
                try transaction.addClass("Doc", key: "_id", .int)
                try transaction.addColumn("items", .int, collection: .list, to: "Doc")
                let items = try transaction.create("Doc", key: 1).list("items")
                for number in 0..<count { try items.append(.int(Int64(number))) }
            }
        }
    }

    private func addClasses(_ transaction: WriteTransaction) throws {
        try transaction.addClass("Task", key: "_id", .int)
        try transaction.addEmbeddedClass("Place")
        try transaction.addColumn("latitude", .double, to: "Place")
        try transaction.addColumn("longitude", .double, to: "Place")
        try transaction.addColumn("title", .string, to: "Task")
        try transaction.addColumn("count", .int, to: "Task")
        try transaction.addColumn("isDone", .bool, to: "Task")
        try transaction.addColumn("price", .double, to: "Task")
        try transaction.addColumn("changed", .timestamp, to: "Task")
        try transaction.addColumn("note", .string, isNullable: true, to: "Task")
        try transaction.addColumn("owner", .objectID, isNullable: true, to: "Task")
        try transaction.addColumn("extra", .null, to: "Task")
        try transaction.addColumn("scores", .int, collection: .list, to: "Task")
        try transaction.addColumn("labels", .string, collection: .dictionary, to: "Task")
        try transaction.addLink("parent", to: "Task", of: "Task")
        try transaction.addLink("place", to: "Place", of: "Task")
    }

    private func create(_ number: Int64, in transaction: WriteTransaction) throws {
        let object = try transaction.create("Task", key: .int(number))
        object["title"] = .string(Array("Task number \(number)".utf8))
        object["count"] = .int(number % 100)
        object["isDone"] = .bool(number.isMultiple(of: 3))
        object["price"] = .double(Double(number) / 100)
        object["changed"] = .timestamp(Timestamp(seconds: 1_700_000_000 + number, nanoseconds: 0))
        object["extra"] = .int(number)
        if let parent = try transaction.object("Task", key: .int(number / 2)) { object["parent"] = parent.link }
        for score: Int64 in 0..<3 { try object.list("scores").append(.int(number + score)) }
        try object.dictionary("labels").set(.string(Array("blue".utf8)), for: "colour")
        let place = try object.createObject("place")
        place["latitude"] = .double(50 + Double(number) / 1_000)
        place["longitude"] = .double(8)
    }
}
