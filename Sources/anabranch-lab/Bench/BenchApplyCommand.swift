import AnabranchCore
import AnabranchTesting
import ArgumentParser
import Foundation

struct BenchApplyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apply",
        abstract: "Time the application of changesets to a state.",
        discussion: """
            Prints a JSON line a workload: the medians of all repeats in milliseconds, and instructions applied a \
            second, decoding not counted.
              create-set     objects are created, and one Int field of each is set
              list-insert    elements are inserted at random places of a list
              list-edit      elements are inserted, moved, set and erased at random places

            EXAMPLE
              anabranch-lab bench apply --objects 200000 --list 100000
            """)

    @Option(help: "How many objects are created.")
    var objects = ApplyWorkload.Size().objects

    @Option(help: "How many elements the list has before.")
    var list = ApplyWorkload.Size().list

    @Option(help: "How many operations are made on the list.")
    var operations = ApplyWorkload.Size().operations

    @Option(help: "How often each workload is run.")
    var repeats = 5

    func validate() throws {
        guard objects > 0, list > 1, operations > 0, repeats > 0 else {
            throw ValidationError("All numbers must be 1 or more, and the list must have 2 elements.")
        }
    }

    func run() throws {
        BenchEnvironment.show()
        let size = ApplyWorkload.Size(objects: objects, list: list, operations: operations)
        let start = try ApplyWorkload.start(size)
        for workload in ApplyWorkload.allCases {
            print(try figures(workload.rawValue, workload.changeset(size), on: start))
            fflush(nil)
        }
    }

    private func figures(_ name: String, _ changeset: [UInt8], on start: ObjectGraph) throws -> String {
        let clock = ContinuousClock()
        var (decoding, applying): ([Duration], [Duration]) = ([], [])
        var count = 0
        for _ in 0..<repeats {
            var arena = ChangesetArena()
            decoding.append(
                try clock.measure { try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 1, ident: 2)) })
            var graph = start
            applying.append(try clock.measure { _ = try graph.apply(0, of: arena) })
            count = arena.instructions(of: 0).count
        }
        return String(
            format: #"{"name":"%@","instructions":%ld,"decode_ms":%.3f,"apply_ms":%.3f,"per_second":%.0f}"#, name,
            count, decoding.median.inMilliseconds, applying.median.inMilliseconds,
            Double(count) / applying.median.inSeconds)
    }
}
