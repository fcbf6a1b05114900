import AnabranchCore
import ArgumentParser
import Foundation

struct BenchApplyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench-apply",
        abstract: "Time the application of changesets to a state.",
        discussion: """
            Prints a JSON line a workload: the medians of all repeats in milliseconds, and instructions applied a second, decoding
            not counted.
              create-set     objects are created, and one Int field of each is set
              list-insert    elements are inserted at random places of a list
              list-edit      elements are inserted, moved, set and erased at random places of the list

            EXAMPLE
              anabranch bench-apply --objects 200000 --list 100000
            """)

    @Option(help: "How many objects are created.")
    var objects = 200_000

    @Option(help: "How many elements the list has before.")
    var list = 100_000

    @Option(help: "How many operations are made on the list.")
    var operations = 200_000

    @Option(help: "How often each workload is run.")
    var repeats = 5

    func validate() throws {
        guard objects > 0, list > 1, operations > 0, repeats > 0 else {
            throw ValidationError("All numbers must be 1 or more, and the list must have 2 elements.")
        }
    }

    func run() throws {
        var base = ObjectGraph()
        _ = try base.write(as: 1) { transaction in
            try transaction.addClass("Doc", key: "_id", .int)
            try transaction.addColumn("i", .int, to: "Doc")
            try transaction.addColumn("items", .int, collection: .list, to: "Doc")
            let items = try transaction.create("Doc", key: 1).list("items")
            for number in 0..<list { try items.append(.int(Int64(number))) }
        }
        try measure("create-set", Self.creations(objects), on: base)
        try measure("list-insert", insertions(), on: base)
        try measure("list-edit", edits(), on: base)
    }

    // MARK: Workloads

    private static func creations(_ count: Int) -> ChangesetWriter {
        var changeset = ChangesetWriter()
        for key in 2..<count + 2 {
            changeset.createObject("Doc", key)
            changeset.update("Doc", key, "i", to: key)
        }
        return changeset
    }

    private func insertions() -> ChangesetWriter {
        var changeset = ChangesetWriter()
        var items = ListWriter(size: list)
        var random = SeededRandom(seed: 1)
        for number in 0..<operations { items.insert(number, at: random.upTo(items.size), to: &changeset) }
        return changeset
    }

    private func edits() -> ChangesetWriter {
        var changeset = ChangesetWriter()
        var items = ListWriter(size: list)
        var random = SeededRandom(seed: 2)
        for number in 0..<operations {
            let index = random.below(items.size)
            switch random.below(4) {
            case 0 where items.size > 2: items.erase(at: index, to: &changeset)
            case 1: items.move(from: index, to: (index + 1 + random.below(items.size - 1)) % items.size, to: &changeset)
            case 2: items.set(number, at: index, to: &changeset)
            default: items.insert(number, at: index, to: &changeset)
            }
        }
        return changeset
    }

    // MARK: Times

    private func measure(_ name: String, _ changeset: ChangesetWriter, on base: ObjectGraph) throws {
        let bytes = changeset.bytes
        var (decoding, applying): ([Duration], [Duration]) = ([], [])
        var count = 0
        for _ in 0..<repeats {
            var pool = ChangesetPool()
            let clock = ContinuousClock()
            decoding.append(
                try clock.measure { try pool.decode(bytes, version: 1, tag: OriginTag(timestamp: 1, ident: 2)) })
            var graph = base
            applying.append(try clock.measure { _ = try graph.apply(0, of: pool) })
            count = pool.instructions(of: 0).count
        }
        let (decode, apply) = (decoding.sorted()[repeats / 2], applying.sorted()[repeats / 2])
        print(
            String(
                format: #"{"name":"%@","instructions":%ld,"decode_ms":%.3f,"apply_ms":%.3f,"per_second":%.0f}"#, name,
                count, decode / .milliseconds(1), apply / .milliseconds(1), Double(count) / (apply / .seconds(1))))
    }
}
