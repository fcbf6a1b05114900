import AnabranchCore
import AnabranchHistory
import AnabranchTesting
import Foundation
import NIOCore
import Testing

@testable import AnabranchServer

/// The calls of a program that embeds the server.
@Suite(.timeLimit(.minutes(30))) struct EmbeddedServerTests {
    private static let notes = VirtualPath(app: "my-app", partition: "notes")

    private static func addNotes(_ transaction: WriteTransaction) throws {
        try transaction.addClass("Note", key: "_id", .uuid)
        try transaction.addColumn("title", .string, isNullable: true, to: "Note")
        try transaction.addColumn("count", .int, to: "Note")
        try transaction.addColumn("rating", .double, to: "Note")
        try transaction.addColumn("done", .bool, to: "Note")
        try transaction.addColumn("due", .timestamp, isNullable: true, to: "Note")
        try transaction.addColumn("picture", .binary, to: "Note")
        try transaction.addColumn("owner", .uuid, to: "Note")
        try transaction.addColumn("price", .decimal, to: "Note")
        try transaction.addColumn("tags", .string, collection: .list, to: "Note")
    }

    @Test func valuesOfSwiftTypesAreReadAsTheyWereWritten() async throws {
        let id = UUID(), owner = UUID(), due = Date(timeIntervalSince1970: 1_700_000_000.25)
        let title: String? = "Welcome", price = Decimal128(low: 1099, high: UInt64(6174) << 49)
        try await withServer { server in
            let made = try await server.server.write(to: Self.notes) { transaction in
                try Self.addNotes(transaction)
                let note = try transaction.create("Note", key: PrimaryKey(id))
                note["title"] = title
                note["count"] = 3
                note["rating"] = 4.5
                note["done"] = true
                note["due"] = due
                note["picture"] = Data([1, 2, 3])
                note["owner"] = owner
                note["price"] = price
                try note.list("tags").append(Payload("new"))
                return try transaction.objects("Note").count
            }
            #expect(made.value == 1 && made.version == 1 && !made.isRepetition)
            try await server.server.read(Self.notes) { state in
                let note = try #require(try state.object("Note", key: PrimaryKey(id)))
                #expect(note["title"] == title)
                #expect(note["count"] == 3)
                #expect(note["rating"] == 4.5)
                #expect(note["done"] == true)
                #expect(note["due"] == due)
                #expect(note["picture"] == Data([1, 2, 3]))
                #expect(note["owner"] == owner)
                #expect(note["price"] == price)
                #expect(try note.value("count", as: Int64.self) == 3)
                #expect(try note.list("tags").values.compactMap(String.init(payload:)) == ["new"])
                #expect(note.key.flatMap(UUID.init(key:)) == id)
                #expect(state.classNames == ["Note"] && state.cursor.version == 1)
            }
            try await server.server.write(to: Self.notes) { transaction in
                let note = try transaction.object("Note", key: PrimaryKey(id)), none: String? = nil
                note?["title"] = none
            }
            let isNull = try await server.server.read(Self.notes) { state in
                let title: String? = try state.objects("Note").first?["title"]
                return title == nil
            }
            #expect(isNull)
        }
    }

    /// The answer of an endpoint to a POST is what it reads, and prints, upon a GET.
    @Test func keysComeBackAsTheTypesThatTheyWereMadeOf() {
        let id = UUID()
        #expect(UUID(key: PrimaryKey(id)) == id)
        #expect("\(PrimaryKey(id))" == "\(id)")
        #expect(Int(key: PrimaryKey(7)) == 7)
        #expect(String(key: PrimaryKey("ann")) == "ann")
        #expect(UUID(key: PrimaryKey("ann")) == nil)
    }

    @Test func aValueOfAnotherTypeIsAnErrorWithItsPlace() async throws {
        try await withServer { server in
            let id = try #require(UUID(uuidString: "00000000-0000-0000-0000-000000000001"))
            try await server.server.write(to: Self.notes) { transaction in
                try Self.addNotes(transaction)
                try transaction.create("Note", key: PrimaryKey(id))["title"] = "A"
            }
            let error = await #expect(throws: ApplyError.self) {
                try await server.server.read(Self.notes) { state in
                    let number: Int? = try state.objects("Note")[0]["title"]
                    return number
                }
            }
            #expect(error?.description == "Note[00000000-0000-0000-0000-000000000001].title: String is not of type Int")
            let refused = await #expect(throws: ApplyError.self) {
                try await server.server.read(Self.notes) { state in try state.objects("Note")[0].set("count", to: 1) }
            }
            #expect(refused?.description.contains("does not write") == true)
        }
    }

    /// 10,000 dates from 1907 to 2096.
    @Test func datesAreExactToTheMicrosecond() throws {
        var random = SeededRandom(seed: 1)
        for _ in 0..<10_000 {
            let microseconds = Int64.random(in: -2_000_000_000_000_000...4_000_000_000_000_000, using: &random)
            let date = Date(timeIntervalSince1970: Double(microseconds) / 1e6)
            let time = try #require(Timestamp(payload: date.payload))
            #expect(time.seconds * 1_000_000 + Int64(time.nanoseconds) / 1_000 == microseconds)
            let read = try #require(Date(payload: date.payload))
            #expect(abs(read.timeIntervalSince(date)) < 1e-6)
        }
    }

    /// Where a `Date` tells no microseconds: a time of whole milliseconds that was read is written as it was.
    @Test func datesFarAwayKeepTheirMilliseconds() throws {
        var random = SeededRandom(seed: 1)
        for _ in 0..<10_000 {
            let first: Int64 = random.pick([-62_135_596_800_000, 250_000_000_000_000])
            let (seconds, rest) = Int64.random(in: first...first + 3_000_000_000_000, using: &random)
                .quotientAndRemainder(dividingBy: 1_000)
            let time = Timestamp(seconds: seconds, nanoseconds: Int32(rest) * 1_000_000)
            #expect(try #require(Date(payload: .timestamp(time))).payload == .timestamp(time))
        }
    }

    /// A peer can send any time, and what was read of it can be written.
    @Test(arguments: [.min, -9_000_000_000_001, 9_000_000_000_000, 1 << 53, .max] as [Int64])
    func everyTimeCanBeWrittenAgain(seconds: Int64) throws {
        let time = Payload.timestamp(Timestamp(seconds: seconds, nanoseconds: 0))
        #expect(try #require(Date(payload: time)).payload == time)
    }

    @Test func aRepetitionHasNoValue() async throws {
        try await withServer { server in
            func write(_ answer: Int) async throws -> CompletedWrite<Int?> {
                try await server.server.write(to: Self.notes, idempotencyKey: "once") { transaction in
                    try transaction.addClass("Note", key: "_id", .int)
                    return answer
                }
            }
            let first = try await write(1), second = try await write(2)
            #expect(first == CompletedWrite(version: 1, isRepetition: false, value: 1))
            #expect(second == CompletedWrite(version: 1, isRepetition: true, value: nil))
        }
    }

    @Test func readingMakesNoFileAndDeletingLeavesNone() async throws {
        let others = VirtualPath(app: "my-app", partition: 7)
        try await withServer { server in
            let classNames = try await server.server.read(others) { $0.classNames }
            #expect(classNames.isEmpty)
            #expect(try await server.server.partitions() == [])
            for path in [Self.notes, others] { try await server.server.write(to: path) { try $0.addClass("Note") } }
            #expect(try await server.server.partitions() == [Self.notes, others])
            #expect(try await server.server.partitions(countMax: 1) == [Self.notes])
            #expect(try await server.server.partitions(after: Self.notes) == [others])
            #expect(try await server.server.delete(others))
            #expect(try await !server.server.delete(others))
            #expect(try await server.server.partitions() == [Self.notes])
        }
    }

    @Test func aClientGetsWhatTheProgramWritesToItsPartition() async throws {
        try await withServer { server in
            let client = SyncClient(partition: "\"notes\"") { server.port }
            try await client.reconnect()
            try await server.server.write(to: VirtualPath(app: "", partition: "notes")) { try $0.addClass("Note") }
            try await client.receive()
            #expect(client.received.count == 1)
        }
    }

    @Test func itCanBeAwaitedThatTheServerListens() async throws {
        let server = SyncServer(
            settings: .small, store: InMemoryStore(), authenticator: AllowAllAuthenticator(), logger: .quiet)
        let early = Task { try await server.listening() }
        let cancelled = Task { try await server.listening() }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        let error = await #expect(throws: SyncServerError.self) { try await server.read(Self.notes) { _ in } }
        #expect(error?.description.contains("await listening()") == true)

        let run = Task { try await server.run() }
        let address = try await early.value
        #expect(address.port.map { $0 > 0 } == true)
        #expect(try await server.listening() == address)
        var settings = ServerSettings.small
        settings.port = address.port ?? 0
        let second = SyncServer(
            settings: settings, store: InMemoryStore(), authenticator: AllowAllAuthenticator(), logger: .quiet)
        let secondRun = Task { try await second.run() }
        await #expect(throws: ListenError.self) { try await second.listening() }
        await #expect(throws: ListenError.self) { try await secondRun.value }

        try await server.write(to: Self.notes) { try $0.addClass("Note") }
        run.cancel()
        try await run.value
        await #expect(throws: SyncServerError.notRunning) { try await server.listening() }
    }

    @Test func errorsSpeakOfNoCodesOfTheProtocol() {
        let errors: [any Error] = [
            SyncServerError.notRunning, SyncServerError.changesForgotten(in: Self.notes),
            SyncServerError.unknownCursor(in: Self.notes), HistoryError(.storeFailed, "the disk is full"),
        ]
        for error in errors { #expect(!"\(error)".contains(/\b[0-9]{3}\b/), "\(error)") }
    }
}
