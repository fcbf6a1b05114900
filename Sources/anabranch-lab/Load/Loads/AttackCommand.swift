import AnabranchCore
import ArgumentParser

struct AttackCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attack",
        abstract: "A few UPLOADs that cost the client little and the server much.",
        discussion: """
            empty: one UPLOAD of --count changesets without a byte. object: --count values of --megabytes in one \
            dictionary, then --increments AddIntegers of another field of the object, one after the other. name: a \
            class whose name has --megabytes, which the server refuses. merge: a device that was away brings changes \
            that all meet what is in the log, --count times --count pairs; what they are is the --shape:

              increments  Updates of a field against AddIntegers of it
              nan         AddIntegers against as many changesets that each set another field of the object to a number \
            that is none
              lists       Updates that make an element a list, on both sides, in a list that both lengthen

            Most of it compresses to almost nothing. With --sigterm-after, the server that --serve has started gets \
            SIGTERM so many seconds after it has read the attack: "shutdown_seconds" and "exit_status" say how it ended.

            Latencies: "prepared" (what makes the attack possible) and "answered" (the attack itself: acknowledged, or \
            refused, with the server's words in "refusal"). An attack without an answer ends after --patience. An \
            operation is an answer. A merge is prepared before anything is measured.

            EXAMPLES
              anabranch-lab load attack empty --count 3900000 \\
                  --serve .build/release/anabranch
              anabranch-lab load attack merge --count 30000 \\
                  --serve .build/release/anabranch
              anabranch-lab load attack merge --shape nan --count 25000 \\
                  --sigterm-after 10 --serve .build/release/anabranch
              anabranch-lab load attack object --count 8 --megabytes 15 \\
                  --serve .build/release/anabranch
              anabranch-lab load attack name --megabytes 10 \\
                  --serve .build/release/anabranch
            """)

    enum Kind: String, CaseIterable, ExpressibleByArgument {
        case empty, merge, object, name
    }

    @Argument(help: "Which one.")
    var kind: Kind

    @Option(help: "How many changesets, instructions or values.")
    var count = 1000

    @Option(help: "The size of a value or a name.")
    var megabytes = 1.0

    @Option(help: "What is merged.")
    var shape = MergeShape.increments

    @Option(help: "How many AddIntegers follow the values of an object.")
    var increments = 20

    @Option(help: ArgumentHelp("End the server so long after it has read the attack.", valueName: "seconds"))
    var sigtermAfter: Double?

    @Option(help: "How many seconds to wait for an answer.")
    var patience = 120.0

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard count > 0, megabytes > 0, increments > 0, patience > 0, sigtermAfter ?? 1 >= 0 else {
            throw ValidationError("All numbers must be more than 0.")
        }
        guard sigtermAfter == nil || options.serve != nil else {
            throw ValidationError("--sigterm-after ends a server that --serve has started.")
        }
    }

    func run() async throws {
        var numbers = ["count": Double(count), "megabytes": megabytes]
        if kind == .object { numbers["increments"] = Double(increments) }
        numbers["sigterm_after"] = sigtermAfter
        let name = kind == .merge && shape != .increments ? "merge \(shape.rawValue)" : kind.rawValue
        try await options.run("attack \(name)", numbers) { run in
            let (reading, onRead) = AsyncStream.makeStream(of: Void.self)
            let attacker = try await Attacker(run, of: "\(run.name)-attack", patience: .seconds(patience)) {
                onRead.yield()
            }
            var device: LoadClient?
            if kind == .merge { device = try await attacker.prepareMerge(shape, count) }
            try await run.measure { [device] in
                let ending = sigtermAfter.map { seconds in
                    Task {
                        for await _ in reading.prefix(1) {}
                        try await Task.sleep(for: .seconds(seconds))
                        await run.endServer()
                    }
                }
                switch kind {
                case .empty: await attacker.upload(Array(repeating: [], count: count))
                case .merge: if let device { await attacker.merge(shape, count, by: device) }
                case .object: await attacker.grow(count, megabytes, increments: increments)
                case .name: await attacker.upload([AttackChangesets.longName(megabytes)])
                }
                onRead.finish()
                try await ending?.value
                return await attacker.outcome
            }
        }
    }
}

/// The kinds of long merges.
enum MergeShape: String, CaseIterable, ExpressibleByArgument {
    case increments, nan, lists

    /// The changesets in the log before the device comes back.
    func logged(_ count: Int) -> [[UInt8]] {
        switch self {
        case .increments: [AttackChangesets.additions(count)]
        case .nan: Array(repeating: AttackChangesets.noNumber, count: count)
        case .lists: [AttackChangesets.newLists(count)]
        }
    }

    /// The changeset that the device brings.
    func brought(_ count: Int) -> [UInt8] {
        switch self {
        case .increments: AttackChangesets.updates(count)
        case .nan: AttackChangesets.additions(count)
        case .lists: AttackChangesets.newLists(count)
        }
    }
}
