import AnabranchTesting
import Testing

@testable import AnabranchCore

/// Two peers that merge what the other one sends, one as a server does it and one as a client.
@Suite struct LogMergeTests {
    @Test func bothPeersComeToTheSameBytesForEveryStepSize() throws {
        var (refused, changed) = (0, 0)
        let seeds = Seeds.upTo(200)
        for seed in seeds {
            let again = Seeds.repeatCommand("bothPeersComeToTheSameBytesForEveryStepSize", seed: seed)
            let whole = Conversation(seed: seed, pairsPerStep: .max)
            for pairs in [1, 2, 3, 7, 50, 1000] {
                #expect(Conversation(seed: seed, pairsPerStep: pairs) == whole, "\(pairs) pairs a step; \(again)")
            }
            if whole.error != nil { refused += 1 }
            changed += whole.changedCount
            #expect(whole.differences == [], "\(again)")
        }
        let isTelling = refused < seeds.count / 2 && changed > 300
        #expect(seeds.count == 1 || isTelling, "\(refused) refused, \(changed) changed")
    }

    /// The client has read the second entry when it makes the second changeset.
    @Test func anEntryThatTwoRunsMeetIsDecodedOnceAndStaysAsTheFirstRunLeftIt() throws {
        let entries = [1, 2, 3].map { changeset(.update(.at("f"), .int($0)), .update(.at("g"), .int($0))) }
        let sent = [(1, 0, "f"), (2, 2, "g")].map { version, base, field in
            LogMerge.Incoming(
                UploadedChangeset(
                    cursor: UploadCursor(clientVersion: ClientVersion(version), serverVersion: ServerVersion(base)),
                    timestamp: 20, changeset: changeset(.update(.at(field), .int(9)))), from: 3)
        }
        var merge = LogMerge(sent)
        var decoded: [UInt64] = []
        var meetings: [[UInt64]] = [[1, 2, 3], []]
        while try merge.beginRun() {
            try merge.begin(meeting: meetings.removeFirst()) { version, arena in
                decoded.append(version)
                let tag = OriginTag(timestamp: 10, ident: 2)
                return try arena.decode(entries[Int(version) - 1], version: version, tag: tag)
            }
            while try !merge.advance(pairs: 1) {}
        }
        #expect(decoded == [1, 2, 3])
        let changed = merge.changedEntries()
        #expect(changed.map(\.version) == [1, 2, 3] && changed.map(\.changeset.isEmpty) == [false, false, true])
    }

    @Test func aRunGoesOverToAnArenaThatHoldsTheEntries() throws {
        let tag = OriginTag(timestamp: 10, ident: 2)
        var shared = ChangesetArena()
        let entry = try shared.decode(changeset(.eraseObject(ObjectName())), version: 1, tag: tag)
        var merge = LogMerge([
            LogMerge.Incoming(
                DownloadedChangeset(
                    cursor: DownloadCursor(serverVersion: 5), tag: OriginTag(timestamp: 20, ident: 3),
                    changeset: changeset(.update(.at("f"), .int(9)))))
        ])
        let hasRun = try merge.beginRun()
        try merge.continueRun(in: shared)
        merge.begin(meeting: [1]) { _, _ in entry }
        while try !merge.advance(pairs: 1) {}
        let (incoming, merged, changedCount) = (merge.incoming, merge.encoded(1), merge.changedEntries().count)
        #expect(hasRun && incoming == [1] && merged == [] && changedCount == 0)
        let hasMore = try merge.beginRun()
        #expect(!hasMore)
    }

    @Test func whereRunsEndDoesNotMatterAndNothingIsDecodedTwice() throws {
        let entry = changeset(.update(.at("f"), .int(1)), .insert(.item(0), .int(1), size: 0))
        let sent = (0..<12).map { number in
            let steps: [Step] = [
                .update(.at("f"), .int(9)), .insert(.item(UInt32(number)), .int(2), size: UInt32(number)),
            ]
            return LogMerge.Incoming(
                UploadedChangeset(
                    cursor: UploadCursor(clientVersion: ClientVersion(number + 1), serverVersion: 0), timestamp: 20,
                    changeset: changeset(steps)), from: 3)
        }
        let ends = [(.max, 0, 13), (1, 0, 13), (30, 0, 13), (12 * 64, 64, 13), (.max, 0, 1), (.max, 64, 5)]
        let results = try ends.map { bytesMax, overheadBytes, last in
            var merge = LogMerge(sent)
            var (merged, runCount) = ([[UInt8]](), 0)
            while try merge.beginRun(
                bytesMax: bytesMax, overheadBytes: overheadBytes,
                endingBehind: { $0.position % last == last - 1 && $1.count > 0 })
            {
                runCount += 1
                try merge.begin(meeting: [1]) { version, arena in
                    try arena.decode(entry, version: version, tag: OriginTag(timestamp: 10, ident: 2))
                }
                while try !merge.advance(pairs: 1) {}
                for index in merge.incoming { merged.append(merge.encoded(index)) }
            }
            #expect(merge.arena.count == sent.count + 1)
            #expect((runCount == 1) == (bytesMax == .max && last == 13))
            return merged + merge.changedEntries().map(\.changeset)
        }
        #expect(results.allSatisfy { $0 == results[0] } && results[0].count == 13)
    }

    @Test func aChangesetThatCannotBeDecodedIsNamed() {
        let sent = [[], [255]].enumerated().map { number, bytes in
            LogMerge.Incoming(
                DownloadedChangeset(
                    cursor: DownloadCursor(serverVersion: ServerVersion(number + 7)),
                    tag: OriginTag(timestamp: 1, ident: 2), changeset: bytes))
        }
        let error = #expect(throws: LogMerge.DecodingError.self) {
            var merge = LogMerge(sent)
            _ = try merge.beginRun()
        }
        #expect(error?.version == 8)
    }
}

/// A server's and its client's handling of random changes, and of each other's messages, which cross on their way.
private struct Conversation: Equatable {
    private var server: Peer
    private var client: Peer
    private(set) var error: String?

    init(seed: UInt64, pairsPerStep: Int) {
        server = Peer(ident: 1, isServer: true, pairsPerStep)
        client = Peer(ident: 2, isServer: false, pairsPerStep)
        var steps = RandomSteps(seed: seed)
        steps.isCareful = true
        steps.isPeaceful = seed % 4 != 0
        do {
            for _ in 0..<30 {
                switch steps.random.below(6) {
                case 0, 1: server.write(&steps)
                case 2, 3: client.write(&steps)
                case 4: try deliver(.toServer, &steps)
                default: try deliver(.toClient, &steps)
                }
            }
            for direction in [Direction.toServer, .toClient, .toServer] { try deliver(direction, &steps, all: true) }
        } catch let error {
            self.error = "\(error)"
        }
    }

    private enum Direction {
        case toServer, toClient
    }

    /// Sends what is new, and delivers a message that was sent, perhaps earlier.
    private mutating func deliver(_ direction: Direction, _ steps: inout RandomSteps, all: Bool = false) throws {
        if direction == .toServer { client.send() } else { server.send() }
        while all || steps.random.isOne(in: 2) {
            let message = direction == .toServer ? client.takeMessage() : server.takeMessage()
            guard let message else { return }
            if direction == .toServer { try server.receive(message) } else { try client.receive(message) }
        }
    }

    /// The changesets that both peers have, but in different forms.
    var differences: [String] {
        guard error == nil else { return [] }
        return server.differences(from: client) + client.differences(from: server)
    }

    /// How many changesets a merge has changed.
    var changedCount: Int { server.changedCount + client.changedCount }
}

private struct Peer: Equatable {
    private struct Entry: Equatable {
        var version: UInt64
        /// How far the maker had integrated the other's log.
        var base: UInt64
        var tag: OriginTag
        /// As it was made.
        var changeset: [UInt8]
        /// As the other side has to see it.
        var form: [UInt8]
    }

    struct Message: Equatable {
        var changesets: [LogMerge.Incoming]
        var progress: UInt64

        static func == (left: Message, right: Message) -> Bool { left.progress == right.progress }
    }

    private let ident: ClientFileID
    private let isServer: Bool
    private let pairsPerStep: Int
    private var version: UInt64 = 0
    private var log: [Entry] = []
    /// The changesets of the other one, by the version that they have there, as they were merged here.
    private var received: [UInt64: [UInt8]] = [:]
    private var integrated: UInt64 = 0
    private var sentCount = 0
    private var messages: [Message] = []

    init(ident: ClientFileID, isServer: Bool, _ pairsPerStep: Int) {
        self.ident = ident
        self.isServer = isServer
        self.pairsPerStep = pairsPerStep
    }

    static func == (left: Peer, right: Peer) -> Bool {
        left.log == right.log && left.received == right.received && left.messages == right.messages
    }

    mutating func write(_ steps: inout RandomSteps) {
        version += 1
        let bytes = changeset(steps.steps(steps.random.below(8)))
        let tag = OriginTag(timestamp: ChangesetTime(steps.random.below(40)), ident: ident)
        log.append(Entry(version: version, base: integrated, tag: tag, changeset: bytes, form: bytes))
    }

    mutating func send() {
        let changesets = log[sentCount...].map { entry in
            guard isServer else {
                let cursor = UploadCursor(
                    clientVersion: ClientVersion(entry.version), serverVersion: ServerVersion(entry.base))
                return LogMerge.Incoming(
                    UploadedChangeset(cursor: cursor, timestamp: entry.tag.timestamp, changeset: entry.changeset),
                    from: ident)
            }
            let cursor = DownloadCursor(
                serverVersion: ServerVersion(entry.version), clientVersion: ClientVersion(entry.base))
            return LogMerge.Incoming(
                DownloadedChangeset(cursor: cursor, tag: entry.tag, changeset: entry.changeset))
        }
        sentCount = log.count
        messages.append(Message(changesets: changesets, progress: version))
    }

    mutating func takeMessage() -> Message? { messages.isEmpty ? nil : messages.removeFirst() }

    mutating func receive(_ message: Message) throws {
        var merge = LogMerge(message.changesets)
        while try merge.beginRun() {
            let keys = merge.incoming.map { merge.arena.conflictKeys(of: $0) }
            let versions = try log.filter { try $0.version > merge.base && canMeet($0, keys) }.map(\.version)
            try merge.begin(meeting: versions) { [log] version, arena in
                let entry = try #require(log.first { $0.version == version })
                return try arena.decode(entry.form, version: version, tag: entry.tag)
            }
            while try !merge.advance(pairs: pairsPerStep) {}
            for (sent, index) in zip(merge.run, merge.incoming) {
                version += 1
                received[sent.version] = merge.encoded(index)
            }
        }
        let changed = merge.changedEntries()
        for index in log.indices {
            let entry = changed.first { $0.version == log[index].version }
            if let entry { log[index].form = entry.changeset }
        }
        integrated = max(integrated, message.progress)
    }

    /// A server finds by an index what can meet; a client takes everything.
    private func canMeet(_ entry: Entry, _ keys: [ConflictKeys]) throws -> Bool {
        guard !entry.changeset.isEmpty else { return false }
        guard isServer, entry.form == entry.changeset else { return true }
        var arena = ChangesetArena()
        let index = try arena.decode(entry.changeset, version: 1, tag: entry.tag)
        let writes = Set(arena.conflictKeys(of: index).writes)
        return keys.contains { $0.readsEverything || !writes.isDisjoint(with: $0.reads) }
    }

    func differences(from other: Peer) -> [String] {
        log.filter { other.received[$0.version] != $0.form }.map { entry in
            "version \(entry.version) of client file \(ident): \(entry.form), and there "
                + "\(other.received[entry.version].map { "\($0)" } ?? "nothing")"
        }
    }

    var changedCount: Int { log.count { $0.form != $0.changeset } }
}
