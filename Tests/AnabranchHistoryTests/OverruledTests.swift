import AnabranchCore
import AnabranchReplica
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchExplain
@testable import AnabranchHistory

/// A client finds out by itself what the server's merge has discarded of its changes: what was uploaded meets the same
/// changes on both sides. So `SyncedStore.mergedAway` need not ask the server.
@Suite struct OverruledTests {
    @Test func clientsKnowWhatTheServerDiscards() async throws {
        let runs = RandomRuns(RandomRuns.count(60, or: "ANABRANCH_WORKLOADS"))
        var lossCount = 0
        await runs.each { seed in
            let meeting = try Meeting(seed: seed), known = try meeting.losses()
            try #require(meeting.told.map(\.unplaced).sorted() == known.map(\.unplaced).sorted())
            lossCount += known.count
        }
        #expect(lossCount > 200 || !runs.areMany, "\(lossCount)")
    }
}

/// Three clients of one file that write without a network and meet now and then.
private struct Meeting {
    private let file: SyncedFile
    private var clients: [MemoryClient] = []
    private var random: SeededRandom
    private var time: UInt64 = 10
    /// The reports to the clients.
    private(set) var told: [String] = []

    init(seed: UInt64) throws {
        file = try SyncedFile(path: VirtualPath("/overruled"), store: InMemoryStore())
        random = SeededRandom(seed: seed)
        for ident in try file.allocateIdents(for: ["anna", "bert", "cleo"], at: 1) {
            var client = MemoryClient(ident)
            client.recordOverruled()
            clients.append(client)
        }
        try clients[0].commit(ChangesetWriter.schema, at: 1)
        for number in clients.indices { try exchange(number) }
        for _ in 0..<80 {
            let number = random.below(clients.count)
            if random.isOne(in: 5) { try exchange(number) } else { try write(number) }
        }
        for _ in 0..<2 { for number in clients.indices { try exchange(number) } }
    }

    private mutating func exchange(_ number: Int) throws {
        // Some download first what the others have done.
        if random.isOne(in: 2) { try download(number) }
        clients[number].startSession()
        while try clients[number].upload(3, to: file) != nil {}
        try download(number)
    }

    private mutating func download(_ number: Int) throws {
        guard file.version > clients[number].download.serverVersion else { return }
        try clients[number].download(from: file)
        for change in clients[number].replica.overruled {
            let ident = clients[number].ident
            told.append("\(ident) \(change.rule): \(change.change), \(change.version): \(change.winner)")
        }
    }

    private mutating func write(_ number: Int) throws {
        time += UInt64(random.below(3))
        var random = random
        try clients[number].write(at: ChangesetTime(time)) { transaction in
            for _ in 0...random.below(2) {
                let key = PrimaryKey.int(Int64(random.below(2)))
                guard let object = try transaction.object("T", key: key) else {
                    try transaction.create("T", key: key)["n"] = Int64(random.below(5))
                    continue
                }
                let list = try object.list("l"), count = try list.count
                switch random.below(10) {
                case 0: try transaction.delete(object)
                case 1, 2, 3: try object.set("n", to: .int(Int64(random.below(5))))
                case 4: try object.add(Int64(random.below(3)), to: "n")
                case 5 where count > 0: try list.remove(at: random.below(count))
                case 6 where count > 0:
                    try list.set(.int(Int64(random.below(5))), at: random.below(count))
                case 8 where count > 4: try list.removeAll()
                default: try list.insert(.int(Int64(random.below(5))), at: random.below(count + 1))
                }
            }
        }
        self.random = random
    }

    /// The uploaded changes that the server's merges have discarded, in the same words.
    func losses() throws -> [String] {
        var losses: [String] = []
        for number in 1...file.version.rawValue {
            let explanation = try file.read { view throws(HistoryError) in
                try view.explanation(of: ServerVersion(rawValue: number))
            }
            try #require(explanation.certainty == .exact)
            for effect in explanation.effects where effect.own.after == nil && effect.isLoss {
                losses.append(
                    """
                    \(explanation.author.client) \(effect.rule): \(effect.own.before.text), \
                    \(effect.author.version): \(effect.other.before.text)
                    """)
            }
        }
        return losses
    }
}

extension String {
    /// A loss without the words of the instruction that won, whose places and sizes of lists are not the same in the
    /// histories of server and client; its version stays, and so does what was lost.
    fileprivate var unplaced: String {
        replacing(#/: [^:]*$/#, with: "").replacing(#/ \(prior size \d+\)/#, with: "")
    }
}

extension Explanation.Effect {
    /// False for what both sides did, and for the schema: nothing is lost then.
    fileprivate var isLoss: Bool {
        switch rule {
        case .R5, .R21, .R24, .R26, .R28: false
        case .R6:
            !own.before.text.hasSuffix("(default)")
                && own.before.text.split(separator: " = ").last?.prefix { $0 != "(" }
                    != other.before.text.split(separator: " = ").last?.prefix { $0 != "(" }
        default: own.before.object != nil
        }
    }
}
