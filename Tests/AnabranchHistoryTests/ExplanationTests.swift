import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchExplain
@testable import AnabranchHistory
@testable import AnabranchSimulation

/// Explanations and blame over random workloads: what is said of a version leads to the bytes of the log, and who wrote
/// a value is whom a plain replay names.
@Suite struct ExplanationTests {
    @Test(arguments: StoreKind.allCases, [Workload.Profile.data, .schema])
    func everyVersionIsExplained(kind: StoreKind, profile: Workload.Profile) async throws {
        let runs = RandomRuns(RandomRuns.count(6, or: "ANABRANCH_WORKLOADS"))
        var tally = ExplanationTally()
        await runs.each { seed in
            let workload = try Workload(kind, profile, seed: seed)
            try workload.run(steps: 120) { try tally.check($0, hasState: profile == .data) }
        }
        guard runs.areMany else { return }
        #expect(tally.exact > 100 && tally.effects > 100 && tally.lost > 20, "\(tally)")
        #expect(tally.values > 20 || profile == .schema, "\(tally)")
    }
}

/// In flexible sync a client was merged with its view of the log, which is not kept: most versions are explained all
/// the same, and of the others it is said.
extension ExplanationTests {
    @Test func flexibleVersionsAreExplained() async throws {
        let runs = RandomRuns(RandomRuns.count(30, or: "ANABRANCH_WORKLOADS"))
        var tally = ExplanationTally()
        await runs.each { seed in
            let run = try FlexibleRun(seed: seed, in: TestStore(.memory))
            try run.run(steps: 100)
            try tally.check(run.file.file, isFlexible: true)
        }
        #expect(tally.exact > 10 * tally.approximate && tally.reasons > 10 || !runs.areMany, "\(tally)")
    }
}

extension ExplanationTests {
    /// Two clients that do not hear of each other set one property; who has lost is asked for, and gets it back.
    @Test func losersComeBack() throws {
        var random = SeededRandom(seed: 51)
        for conflict in 0..<500 {
            let file = try SyncedFile(path: VirtualPath("/restored"), store: InMemoryStore())
            let idents = try file.allocateIdents(for: ["anna", "bert"], at: 1)
            var clients = idents.map { MemoryClient($0) }
            func exchange(_ number: Int) throws {
                var session = try file.identify(clients[number].identRequest)
                clients[number].startSession()
                while let upload = clients[number].nextUpload(8) {
                    guard let rest = try session.accept(upload) else { break }
                    try file.integrateAtOnce(rest, from: idents[number].ident)
                }
                let batch = try file.downloads(for: idents[number].ident)
                    .download(after: session.download, byteBudget: 1 << 20)
                try clients[number].integrate(batch) { _, _ in }
            }
            var object = ChangesetWriter()
            object.create(1)
            try clients[0].commit(ChangesetWriter.schema, at: 1)
            try clients[0].commit(object.bytes, at: 2)
            for number in [0, 1] { try exchange(number) }
            let values = (0..<2).map { _ in Int64.random(in: 1...1_000_000, using: &random) }
            let times = (0..<2).map { _ in ChangesetTime(UInt64.random(in: 10...12, using: &random)) }
            let order = Bool.random(using: &random) ? [0, 1] : [1, 0]
            for number in order {
                try clients[number].commit(ChangesetWriter.setting(1, to: values[number]), at: times[number])
            }
            for number in order { try exchange(number) }

            let version = file.version
            let explanation = try file.read { view throws(HistoryError) in try view.explanation(of: version) }
            let lost = try #require(explanation.lostValues.first, "conflict \(conflict)")
            // The newer one has won; at equal times the client with the higher number.
            let loser = times[0] <= times[1] ? 0 : 1
            #expect(explanation.lostValues.count == 1 && lost.value == .int(values[loser]), "conflict \(conflict)")
            #expect(lost.author.client == idents[loser].ident && lost.winner.client == idents[1 - loser].ident)
            #expect(lost.author.user == ["anna", "bert"][loser] && lost.rule == .R6)

            try file.write(at: 20) { try $0.restore(lost) }
            #expect(file.version == version + 1)
            for number in [0, 1] {
                try exchange(number)
                let value = try clients[number].state.read { try $0.object("T", key: .int(1))?.value("n") }
                #expect(value == .int(values[loser]), "conflict \(conflict), client \(number)")
            }
        }
    }

    /// A class that comes back has other objects, with other authors.
    @Test func anErasedClassTakesItsAuthorsWithIt() throws {
        let file = try SyncedFile(path: VirtualPath("/erased"), store: InMemoryStore(), destructiveSchema: .allow)
        for time in 1...2 as ClosedRange<UInt64> {
            try file.write(at: ChangesetTime(time * 10)) { tx in
                try tx.addClass("Note", key: "_id", .int)
                try tx.addColumn("title", .string, to: "Note")
                try tx.create("Note", key: 1)["title"] = "\(time)"
            }
            if time == 1 { try file.write(at: 15) { try $0.eraseClass("Note") } }
        }
        let address = ObjectAddress("Note".utf8, .int(1))
        let blame = try file.withState { state in
            try file.read { view throws(HistoryError) in try view.blame(address, in: state) }
        }
        #expect(blame?.creation?.version == 3 && blame?.lines.map(\.author?.version) == [3])
    }

    /// One large value that overrules many changes would be told with each of them.
    @Test func anExplanationStaysSmall() throws {
        let file = try SyncedFile(path: VirtualPath("/large"), store: InMemoryStore())
        let ident = try file.allocateIdent().ident
        try file.write(at: 1) { tx in
            try tx.addClass("Note", key: "_id", .int)
            try tx.addColumn("title", .string, to: "Note")
            _ = try tx.create("Note", key: 1)
        }
        let title = FieldPath(object: ObjectName(className: "Note", key: .int(1)), field: "title")
        for time in 2...41 as ClosedRange<UInt64> {
            try file.write(at: ChangesetTime(time)) {
                try $0.object("Note", key: .int(1))?.set("title", to: .string(Array("\(time)".utf8)))
            }
        }
        let picture = ChangesetWriter([.update(title, .string([UInt8](repeating: 66, count: 1 << 20)))]).bytes
        let cursor = UploadCursor(clientVersion: 2, serverVersion: 1)
        let upload = Upload(
            progress: cursor, changesets: [UploadedChangeset(cursor: cursor, timestamp: 99, changeset: picture)])
        try file.integrateAtOnce(upload, from: ident)
        let version = file.version
        let found = try code {
            _ = try file.read { view throws(HistoryError) in try view.explanation(of: version) }
        }
        #expect(found == .tooLarge)
    }

    @Test func whatCannotComeBackIsRefused() throws {
        let file = try SyncedFile(path: VirtualPath("/restored"), store: InMemoryStore())
        try file.write(at: 1) { tx in
            try tx.addClass("Note", key: "_id", .int)
            try tx.addColumn("title", .string, to: "Note")
            _ = try tx.create("Note", key: 1)
        }
        let author = try file.read { view throws(HistoryError) in try view.explanation(of: 1).author }
        func lost(_ key: Int64, _ field: String, _ value: Payload) -> LostValue {
            LostValue(
                object: ObjectAddress("Note".utf8, .int(key)), field: Array(field.utf8), value: value, author: author,
                rule: .R6, winner: author)
        }
        try file.write(at: 2) { try $0.restore(lost(1, "title", .string(Array("back".utf8)))) }
        #expect(file.version == 2)
        #expect(throws: RestorationError.self) { try file.write(at: 3) { try $0.restore(lost(2, "title", .null)) } }
        #expect(throws: ApplyError.self) { try file.write(at: 3) { try $0.restore(lost(1, "title", .int(1))) } }
        #expect(throws: ApplyError.self) { try file.write(at: 3) { try $0.restore(lost(1, "body", .int(1))) } }
        #expect(file.version == 2)
    }
}

/// The versions that were looked at.
private struct ExplanationTally {
    var exact = 0, approximate = 0, gone = 0, effects = 0, lost = 0, refused = 0, reasons = 0, values = 0

    mutating func check(_ file: SyncedFile, hasState: Bool = false, isFlexible: Bool = false) throws {
        let base = file.head.baseVersion
        for number in base.rawValue..<file.version.rawValue {
            let version = ServerVersion(rawValue: number + 1)
            let entry = try #require(try file.read { view throws(HistoryError) in try view.entry(version) })
            let explanation: Explanation
            do throws(HistoryError) {
                explanation = try file.read { view throws(HistoryError) in try view.explanation(of: version) }
            } catch {
                try #require(error.code == .badServerVersion && base > 0, "version \(version): \(error)")
                gone += 1
                continue
            }
            if isFlexible, explanation.certainty != .exact {
                approximate += 1
            } else {
                try check(explanation, of: entry)
            }
        }
        guard hasState else { return }
        let log = try file.log()
        for key in 0..<4 as Range<Int64> { try checkBlame(of: key, in: file, log) }
    }

    private mutating func check(_ explanation: Explanation, of entry: LogEntry) throws {
        try #require(explanation.certainty == .exact, "version \(entry.version) is \(explanation.certainty)")
        exact += 1
        effects += explanation.effects.count
        lost += explanation.instructions.filter { $0.logged == nil }.count
        refused += explanation.instructions.filter(\.isRefused).count
        var arena = ChangesetArena()
        let index = try entry.decode(into: &arena)
        let texts = arena.instructions(of: index).map { arena.text(of: $0) }
        let added = explanation.effects.filter { $0.rule == .R8 && !$0.own.isAffected }.count
        let logged = explanation.instructions.compactMap { $0.logged?.text }
        try #require(added > 0 || logged == texts, "version \(entry.version)")
        // Of an object that was refused nothing is in the log.
        let refusals = Set(explanation.decisions.filter(\.isRefused).map(\.object))
        for instruction in explanation.instructions {
            guard let object = instruction.uploaded.object, refusals.contains(object) else { continue }
            try #require(instruction.logged == nil, "version \(entry.version): \(instruction.uploaded.text)")
            reasons += instruction.isRefused ? 1 : 0
        }
        // Followed one after the other, the effects lead from what was uploaded to what was logged.
        var forms = explanation.instructions.map { Optional($0.uploaded.text) }
        for effect in explanation.effects {
            try #require(effect.own.isAffected || effect.other.isAffected, "\(effect.rule) without an effect")
            try #require(effect.author.version < entry.version && effect.author.client != entry.origin)
            guard let position = effect.position else { continue }
            try #require(forms[position] == effect.own.before.text, "version \(entry.version): \(effect.rule)")
            forms[position] = effect.own.after?.text
        }
        for (instruction, form) in zip(explanation.instructions, forms) where !instruction.isRefused {
            try #require(form == instruction.logged?.text, "version \(entry.version)")
        }
    }

    private mutating func checkBlame(of key: Int64, in file: SyncedFile, _ log: [LogEntry]) throws {
        let address = ObjectAddress("T".utf8, .int(key))
        let blame = try file.withState { state in
            try file.read { view throws(HistoryError) in try view.blame(address, in: state) }
        }
        let versions = try file.read { view throws(HistoryError) in try view.versions(changing: address) }
        let naive = try NaiveBlame(of: address, in: log)
        #expect(versions == naive.versions)
        // What came before the log begins is not known.
        guard file.head.baseVersion == 0 else { return }
        #expect((blame == nil) == (naive.created == nil))
        guard let blame, let created = naive.created else { return }
        #expect(blame.creation?.version == created)
        var found: [String: ServerVersion] = [:]
        for line in blame.lines { found[line.place] = line.author?.version }
        var expected = ["n": naive.number ?? created]
        for (index, version) in naive.list.enumerated() { expected["l[\(index)]"] = version }
        if naive.list.isEmpty { expected["l"] = created }
        values += expected.count
        for (place, version) in expected { #expect(found[place] == version, "\(key), \(place)") }
    }
}

/// The authors of the number and the elements of the list of an object, as the instructions of the log say one by one.
private struct NaiveBlame {
    private(set) var created: ServerVersion?
    private(set) var number: ServerVersion?
    private(set) var list: [ServerVersion] = []
    private(set) var versions: [ServerVersion] = []

    init(of object: ObjectAddress, in log: [LogEntry]) throws {
        for entry in log where !entry.changeset.isEmpty {
            var arena = ChangesetArena()
            let index = try entry.decode(into: &arena)
            for instruction in arena.instructions(of: index)
            where !instruction.kind.isSchema && ObjectAddress(of: instruction, in: arena) == object {
                if versions.last != entry.version { versions.append(entry.version) }
                let path = arena.path(of: instruction), place = Int(path.last?.index ?? 0)
                switch instruction.kind {
                case .createObject: if created == nil { created = entry.version }
                case .eraseObject: (created, number, list) = (nil, nil, [])
                case _ where created == nil: break
                case .update where path.isEmpty, .addInteger: number = entry.version
                // Where the log has lost its beginning, the list had elements that nobody knows.
                case .update where place >= list.count, .arrayErase where place >= list.count,
                    .arrayInsert where place > list.count,
                    .arrayMove where max(place, Int(instruction.destination)) >= list.count:
                    break
                case .update: list[place] = entry.version
                case .arrayInsert: list.insert(entry.version, at: place)
                case .arrayErase: list.remove(at: place)
                case .arrayMove: list.insert(list.remove(at: place), at: Int(instruction.destination))
                default: Issue.record("\(instruction.kind) was not expected")
                }
            }
        }
    }
}
