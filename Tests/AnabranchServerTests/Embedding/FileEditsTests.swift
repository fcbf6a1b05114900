import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchServer

/// The feed of edits (`Spec/Explain.md`, section 7).
@Suite(.timeLimit(.minutes(30))) struct FileEditsTests {
    private static let path = VirtualPath("//notes")

    @Test func aFeedSaysWhatEachEditHasBecome() async throws {
        try await withServer { server in
            func write(_ seconds: TimeInterval, _ body: @escaping @Sendable (WriteTransaction) throws -> Void)
                async throws
            {
                _ = try await server.server.write(to: Self.path, at: Date(timeIntervalSince1970: seconds), body)
            }
            let start: TimeInterval = 1_700_000_000
            try await write(start) { transaction in
                try transaction.addClass("Note", key: "_id", .int)
                try transaction.addColumn("title", .string, to: "Note")
                try transaction.addColumn("done", .bool, to: "Note")
            }
            try await write(start + 10) { try $0.create("Note", key: 1) }
            try await write(start + 20) { try $0.create("Note", key: 2) }
            try await write(start + 200) { try $0.object("Note", key: 1)?["title"] = "Milk" }
            try await write(start + 400) { transaction in
                for key in [1, 2] as [PrimaryKey] { try transaction.object("Note", key: key)?["done"] = true }
            }
            try await write(start + 1_000) { transaction in
                if let note = try transaction.object("Note", key: 1) { try transaction.delete(note) }
            }

            var found: [SyncedEdit] = []
            for try await edit in server.server.edits(in: Self.path, after: .beginning) {
                found.append(edit)
                if found.count == 6 { break }
            }
            // The pause of note 2, 380 s, is longer than five minutes, but not that of note 1.
            #expect(found.map(\.id) == [1, 2, 3, 2, 2, 6])
            #expect(found.map(\.cursor.version) == [1, 2, 3, 4, 5, 6])
            #expect(found.map(\.transactionCount) == [1, 1, 1, 2, 3, 1])
            #expect(found.map(\.changesSchema) == [true, false, false, false, false, false])
            #expect(found.map { $0.objects.map(\.key) } == [[], [1], [2], [1], [1, 2], [1]])
            #expect(found[4].objects.map(\.change) == [.inserted, .modified(fields: ["done"])])
            #expect(found[4].dates.lowerBound == Date(timeIntervalSince1970: start + 10))
            #expect(found[4].dates.upperBound == Date(timeIntervalSince1970: start + 400))
            #expect(found[5].objects.map(\.change) == [.deleted])
            #expect(found.allSatisfy { $0.author == .server })

            // From a stored cursor on, the edit under way has an identity of its own.
            let cursor = try #require(ChangeCursor(found[3].cursor.description))
            var rest = server.server.edits(in: Self.path, after: cursor, pause: 3_600).makeAsyncIterator()
            #expect(try await rest.next()?.id == 5)
            let last = try await rest.next()
            #expect(last?.id == 5 && last?.objects.map(\.change) == [.deleted, .modified(fields: ["done"])])
        }
    }

    /// Where each transaction changes one object, a feed and a listing of the log, newest first, find the same edits;
    /// and where some change more, each is in one edit.
    @Test(arguments: 1...40 as ClosedRange<UInt64>) func aFeedFindsTheEditsOfALog(seed: UInt64) throws {
        var random = SeededRandom(seed: seed), milliseconds: [UInt64: UInt64] = [:]
        let authors = 1 + random.below(6), keys = 1 + random.below(12), isSingle = random.isOne(in: 2)
        let entries = (0..<600).map { index in
            let author = UInt64(2 + random.below(authors))
            milliseconds[author, default: 0] += 1_000 * UInt64(random.below(random.isOne(in: 9) ? 700 : 20))
            var writer = ChangesetWriter()
            for _ in 0..<(isSingle ? 1 : 1 + random.below(3)) {
                writer.write(.createObject(ObjectName(className: "T", key: .int(Int64(random.below(keys))))))
            }
            return LogEntry(
                version: ServerVersion(index + 1), salt: 1, origin: ClientFileID(rawValue: author), clientVersion: 2,
                timestamp: ChangesetTime(milliseconds[author] ?? 0), cumulativeSize: 0, changeset: writer.bytes)
        }
        var feed = EditFeed(pause: FileEdits.usualPause), newest: [ServerVersion: SyncedEdit] = [:], calls = 0
        for entry in entries {
            let transaction = try SyncedTransaction(entry, user: nil)
            let edit = feed.add(transaction)
            #expect(edit.author == transaction.author && edit.cursor == transaction.cursor, "seed \(seed)")
            #expect(Set(edit.objects.map(\.key)).isSuperset(of: transaction.objects.map(\.key)), "seed \(seed)")
            #expect(edit.transactionCount == (newest[edit.id]?.transactionCount ?? 0) + 1, "seed \(seed)")
            newest[edit.id] = edit
            calls += 1
        }
        #expect(newest.values.reduce(0) { $0 + $1.transactionCount } == calls, "seed \(seed)")
        guard isSingle else { return }
        var groups = EditGroups(), listed: [Edit] = []
        for entry in entries.reversed() { listed += try groups.add(entry) }
        listed += groups.finish()
        let found = newest.values.sorted { $0.cursor.version > $1.cursor.version }
        #expect(found.map { $0.id...$0.cursor.version } == listed.map(\.versions), "seed \(seed)")
        #expect(found.map(\.transactionCount) == listed.map(\.versionCount), "seed \(seed)")
    }

    /// The number of edits and of their objects is bounded, whatever the log is.
    @Test func aFeedStaysSmall() throws {
        func transaction(_ version: Int, _ keys: [Int64]) throws -> SyncedTransaction {
            var writer = ChangesetWriter()
            for key in keys { writer.write(.createObject(ObjectName(className: "T", key: .int(key)))) }
            let entry = LogEntry(
                version: ServerVersion(version), salt: 1, origin: 2, clientVersion: 2, timestamp: 1_000,
                cumulativeSize: 0, changeset: writer.bytes)
            return try SyncedTransaction(entry, user: nil)
        }
        var feed = EditFeed(pause: 300)
        for number in 0...EditFeed.openMax { _ = feed.add(try transaction(1 + number, [Int64(number)])) }
        #expect(feed.add(try transaction(1_000, [1])).id == 2)
        #expect(feed.add(try transaction(1_001, [0])).id == 1_001)
        let many = (0..<Int64(EditFeed.objectsMax)).map { 10_000 + $0 }
        #expect(feed.add(try transaction(2_000, many)).objects.count == EditFeed.objectsMax)
        #expect(feed.add(try transaction(2_001, [10_000])).id == 2_001)
    }

    /// To a `String`, "é" is "e\u{301}".
    @Test func namesThatLookAlikeAreTwo() throws {
        let names = ["\u{e9}", "e\u{301}"]
        var feed = EditFeed(pause: 300), writer = ChangesetWriter()
        for name in names + names {
            let object = ObjectName(className: name)
            for field in names { writer.write(.update(FieldPath(object: object, field: field), .int(1))) }
        }
        let entry = LogEntry(
            version: 1, salt: 1, origin: 2, clientVersion: 2, timestamp: 1_000, cumulativeSize: 0,
            changeset: writer.bytes)
        let transaction = try SyncedTransaction(entry, user: nil)
        for objects in [feed.add(transaction).objects, feed.add(transaction).objects] {
            #expect(objects.map { Array($0.className.utf8) } == names.map { Array($0.utf8) })
            for object in objects {
                guard case .modified(let fields) = object.change else {
                    Issue.record("\(object.change)")
                    continue
                }
                #expect(fields.map { Array($0.utf8) } == names.map { Array($0.utf8) })
            }
        }
    }
}
