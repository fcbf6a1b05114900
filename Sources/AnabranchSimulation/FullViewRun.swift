import AnabranchCore
import AnabranchHistory
import AnabranchTesting

/// Random clients of a file of partition-based sync that do only what flexible sync allows. `FullViewReplay` repeats
/// what they have done. Everything follows from the seed.
package struct FullViewRun {
    private let file: SyncedFile
    private let world: RandomWorld
    private var random: SeededRandom
    private var clients: [MemoryClient]
    private var uploads: [FullViewReplay.Uploaded] = []
    private var made = AuthoredInstructions()

    private init(seed: UInt64) throws {
        random = SeededRandom(scrambling: seed)
        world = RandomWorld(&random)
        file = try SyncedFile(path: VirtualPath("run"), store: InMemoryStore())
        clients = try file.allocateIdents(for: [nil, nil, nil], at: 1).map { MemoryClient($0) }
        try clients[0].write(at: 1) { try RandomWorld.declare($0) }
        for index in clients.indices {
            try upload(index)
            try clients[index].download(from: file)
        }
    }

    /// - Throws: `FlexibleRun.Failure` if flexible sync behaves differently; or the error that stopped the run.
    package static func run(seed: UInt64, steps: Int) throws {
        var run = try FullViewRun(seed: seed)
        if let difference = try run.difference(steps: steps) {
            throw FlexibleRun.Failure(description: "with a view of everything: \(difference)")
        }
    }

    private mutating func difference(steps: Int) throws -> String? {
        for time in 0..<steps {
            let index = random.below(clients.count)
            switch random.below(4) {
            case 0: try upload(index)
            case 1: try clients[index].download(from: file)
            default: try write(index, at: ChangesetTime(rawValue: 100 + UInt64(time) - UInt64(random.below(20))))
            }
        }
        for index in clients.indices { try upload(index) }
        return try FullViewReplay.difference(from: file, of: uploads)
    }

    private mutating func write(_ index: Int, at time: ChangesetTime) throws {
        let seed = random.next(), base = clients[index].download.serverVersion.rawValue
        let tag = OriginTag(timestamp: time, ident: clients[index].ident), state = clients[index].state
        do {
            try clients[index].write(
                at: time,
                if: { changeset in
                    guard try FullViewReplay.isComparable(changeset, in: state) else { return false }
                    return try made.add(changeset, by: index, tag: tag, base: base) == nil
                },
                { try world.edit($0, seed: seed) })
        } catch is ApplyError {
            // The edit needed something that is not there.
        }
    }

    private mutating func upload(_ index: Int) throws {
        guard let upload = clients[index].nextUpload(isProgressTold: false) else { return }
        let before = file.version
        try file.integrateAtOnce(upload, from: clients[index].ident)
        made.recordUpload(by: index, versions: try file.log(after: before).map(\.version.rawValue))
        uploads += upload.changesets.map { (clients[index].ident, $0) }
    }
}
