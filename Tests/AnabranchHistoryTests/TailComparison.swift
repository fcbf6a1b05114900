import AnabranchCore
import AnabranchTesting

@testable import AnabranchHistory

/// Asks a synced file, whose newest entries are in memory, and its store the same things.
struct TailComparison {
    private let file: SyncedFile
    private let store: any HistoryStore

    init(_ file: SyncedFile, _ store: any HistoryStore) {
        self.file = file
        self.store = store
    }

    /// The answers of a view to one question of each kind.
    private struct Answers: Equatable, Sendable {
        var head: FileHead
        var clientFile: ClientFile?
        var entry: LogEntry?
        var bareEntry: LogEntry?
        var salt: Salt?
        var received: ReceivedChangeset?
        var entries: [LogEntry]
        var entriesOfAll: [LogEntry]
        var versions: [ServerVersion]
        var receipts: [Receipt]
        var lastReceipt: Receipt?
        var writers: [ServerVersion]
        var write: ServerVersion?
        var reciprocals: [ReciprocalChangeset]
    }

    /// Random questions, in a random range; the same to both.
    private struct Questions {
        let range: VersionRange
        let version: ServerVersion
        let ident: ClientFileID
        let byteBudget: Int
        let keys: [UInt64]

        func ask(_ view: any FileView) throws(HistoryError) -> Answers {
            Answers(
                head: try view.head(), clientFile: try view.clientFile(ident), entry: try view.entry(version),
                bareEntry: try view.entryWithoutChangeset(version),
                salt: try view.salt(of: version), received: try view.received(version),
                entries: try view.entries(in: range, excludingOrigin: ident, byteBudget: byteBudget),
                entriesOfAll: try view.entries(in: range, excludingOrigin: nil, byteBudget: byteBudget),
                versions: try view.versions(in: range, excludingOrigin: ident),
                receipts: try view.receipts(from: ident, in: range),
                lastReceipt: try view.lastReceipt(from: ident, upTo: version),
                writers: try view.versions(writing: keys, in: range, excludingOrigin: ident),
                write: try view.version(ofWrite: [1]), reciprocals: try view.reciprocals(of: ident, in: range))
        }
    }

    /// Fails at the first question to which the answers differ.
    func check(using random: inout SeededRandom) throws {
        let last = file.version.rawValue, keys = try conflictKeys()
        for missesTail in [true, false] {
            // Beyond both ends as well.
            let ends = [UInt64.random(in: 0...last + 2, using: &random), .random(in: 0...last + 2, using: &random)]
            let end = Int.random(in: 0..<10, using: &random) == 0 ? ServerVersion.largest : ServerVersion(ends.max()!)
            let questions = Questions(
                range: VersionRange(after: ServerVersion(ends.min()!), through: end),
                version: ServerVersion(UInt64.random(in: 0...last + 2, using: &random)),
                ident: ClientFileID(UInt64.random(in: 0...file.head.nextIdent.rawValue + 1, using: &random)),
                byteBudget: Int.random(in: 0...200, using: &random),
                keys: (0..<3).compactMap { _ in keys.randomElement(using: &random) })
            let found = try file.read(missesTail: missesTail) { view throws(HistoryError) in
                try questions.ask(view)
            }
            let expected = try store.read(file.id) { view throws(HistoryError) in try questions.ask(view) }
            guard found == expected else {
                throw Workload.Violation(description: "the tail: \(questions): \(found) and not \(expected)")
            }
        }
    }

    /// Of the newest entries.
    private func conflictKeys() throws -> [UInt64] {
        let base = ServerVersion(file.version.rawValue - min(file.version.rawValue, 3))
        return try file.log(after: base).filter { !$0.changeset.isEmpty }.flatMap { entry throws(HistoryError) in
            var arena = ChangesetArena()
            let index = try entry.decode(into: &arena)
            return arena.conflictKeys(of: index).writes
        }
    }
}
