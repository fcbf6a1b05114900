import AnabranchCore
import AnabranchProtocol
import AnabranchTestClient
import Foundation
import NIOCore
import NIOPosix
import Testing

@testable import anabranch_lab

@Suite struct FuzzDamageTests {
    // MARK: What counts as a failure

    private static func changeset(_ version: UInt64, _ bytes: [UInt8] = [1]) -> StoreReading.Delivery {
        StoreReading.Delivery(
            version: ServerVersion(rawValue: version), tag: OriginTag(timestamp: 7, ident: 3), changeset: bytes)
    }

    private static let written = StoreReading(deliveries: [[changeset(2), changeset(3)], [changeset(3)]])

    private func problem(_ deliveries: [[StoreReading.Delivery]], _ refusal: TestClientError? = nil) -> String? {
        StoreReading(deliveries: deliveries, refusal: refusal).problem(expected: Self.written)
    }

    private func error(_ code: ErrorCode) -> TestClientError {
        TestClientError("error", told: ErrorMessage(code, "words"))
    }

    @Test func whatWasWrittenIsNoProblem() { #expect(problem(Self.written.deliveries) == nil) }

    @Test func aRefusalMayComeAtAnyPlace() {
        for count in 0...2 {
            let refusal = error(.otherSessionError)
            #expect(problem([Array(Self.written.deliveries[0].prefix(count))], refusal) == nil, "\(count)")
        }
    }

    @Test func otherBytesAreAProblemAlsoBeforeARefusal() throws {
        let given = [[Self.changeset(2), Self.changeset(3, [2])]]
        #expect(try #require(problem(given + [Self.written.deliveries[1]])).contains("another changeset 1"))
        #expect(try #require(problem(given, error(.otherSessionError))).contains("another changeset 1"))
        #expect(try #require(problem([[Self.changeset(4)]], error(.otherSessionError))).contains("another changeset 0"))
    }

    @Test func fewerAsIfTheyWereAllAreAProblem() throws {
        #expect(try #require(problem([[Self.changeset(2)], [Self.changeset(3)]])).contains("1 of 2 changesets as if"))
        // The first client was told that it has everything; it was the second one that was refused.
        let words = try #require(problem([[Self.changeset(2)], []], error(.otherSessionError)))
        #expect(words.contains("client 0 is given 1 of 2 changesets as if"))
    }

    @Test func moreAreAProblem() throws {
        let given = Self.written.deliveries[0] + [Self.changeset(4)]
        #expect(try #require(problem([given])).contains("is given 3 changesets, of 2"))
    }

    @Test func aResetIsAProblem() throws {
        #expect(try #require(problem([[]], error(.badClientFileIdent))).contains("told to reset"))
    }

    /// Nobody can tell it from a loss of the network, and the client comes again and again.
    @Test func anEndWithoutAnErrorIsAProblem() throws {
        let words = try #require(problem(Self.written.deliveries, TestClientError("the connection has ended")))
        #expect(words == "a client is told no error: the connection has ended")
    }

    // MARK: Bits

    private func withDirectory(_ body: (URL) async throws -> Void) async throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(
            at: directory.appendingPathComponent("more"), withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        try await body(directory)
    }

    @Test func allBitsOfDatabasesAndManifestsAreFlippedAndNothingElse() async throws {
        try await withDirectory { directory async throws in
            let databases = ["a.sqlite", "a.sqlite-wal", "manifest.json", "more/b.sqlite"]
            let others = ["a.sqlite-shm", "accounts.sqlite", "keys.json", "more/c"]
            for name in databases + others {
                try Data([0, 0]).write(to: directory.appendingPathComponent(name))
            }
            var bits: Set<String> = []
            for seed in 0..<2_000 as Range<UInt64> {
                let flip = try BitFlip(seed: seed, in: directory)
                #expect(try BitFlip(seed: seed, in: directory) == flip)
                bits.insert("\(flip)")
            }
            #expect(bits.count == databases.count * 2 * 8)
            #expect(bits.allSatisfy { bit in databases.contains { bit.hasSuffix(" of \($0)") } })
        }
    }

    @Test func smallFilesAreNotPassedOver() async throws {
        try await withDirectory { directory async throws in
            try Data(repeating: 0, count: 1 << 20).write(to: directory.appendingPathComponent("a.sqlite"))
            try Data([0]).write(to: directory.appendingPathComponent("manifest.json"))
            let files = try (0..<200 as Range<UInt64>).map { try BitFlip(seed: $0, in: directory).file }
            #expect((5...40).contains(files.count { $0 == "manifest.json" }))
        }
    }

    @Test func aBitIsFlipped() async throws {
        try await withDirectory { directory async throws in
            let file = directory.appendingPathComponent("a.sqlite")
            try Data([1, 2, 3]).write(to: file)
            var flip = try BitFlip(seed: 1, in: directory)
            (flip.offset, flip.bit) = (1, 7)
            try flip.apply(in: directory)
            #expect(try Data(contentsOf: file) == Data([1, 0x82, 3]))
            try flip.apply(in: directory)
            #expect(try Data(contentsOf: file) == Data([1, 2, 3]))
        }
    }

    // MARK: The store

    /// A client that writes 2,000 changesets within a second is ahead of the clock, as one is who writes one after the
    /// other to a fast server.
    @Test func whoComesBackIsNewerThanAWriterAheadOfTheClock() async throws {
        let server = try await ServerUnderLoad.start(try LabProcess.server)
        defer { server.kill() }
        let eventLoops = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let history = StoreHistory(target: try SyncTarget(url: server.url), eventLoop: eventLoops.next())
        var clients: [LoadClient] = []
        for _ in 0..<2 {
            clients.append(LoadClient(of: "notes", on: history.eventLoop))
            try await clients[clients.count - 1].join(try await .opened(to: history.target, on: history.eventLoop))
        }
        let writer = clients[0], late = clients[1]
        var changes = (1...2_001).map { LoadChangesets.update(of: 1, number: $0, bytes: 8) }
        changes[0] = LoadChangesets.first(of: 1)
        let newest = changes.removeLast()
        // It was made on a state with the object.
        let first = await writer.upload([changes.removeFirst()]).version
        _ = try await writer.wait { $0.isAcknowledged(first) }
        try await late.catchUp()
        await late.leave()
        let last = await writer.upload(changes).version
        _ = try await writer.wait { $0.isAcknowledged(last) }
        try await history.bring(newest, by: late, to: writer)
        await writer.leave()
        try await eventLoops.shutdownGracefully()
    }

    // MARK: The command

    @Test func theCommandSaysWhatBecameOfEachBit() async throws {
        let answer = try await LabProcess.run(
            ["fuzz", "damage", "--serve", try LabProcess.server, "--count", "5", "--files", "2", "--changesets", "8"])
        let last = try #require(answer.output.split(separator: "\n").last)
        let numbers = try #require(last.wholeMatch(of: /(\d+) passed, (\d+) failed/), "\(answer.complaint)").output
        #expect(numbers.1 == "5" && numbers.2 == "0" && answer.status == 0, "\(answer.output)")
        #expect(answer.complaint.contains("5 of 5 bits"))
    }

    /// The store without damage is served to three of them, and the next one does not live to say where it listens.
    private static let dyingScript = """
        [ $(wc -l < "$PROCESSES") -le 3 ] && exec "$SERVER" "$@"
        kill -KILL $$
        """

    @Test func whatFailedIsKeptAlsoTheSecondTime() async throws {
        try await withDirectory { directory async throws in
            let keep = directory.appendingPathComponent("kept")
            for _ in 0..<2 {
                try await withScript(Self.dyingScript) { script async throws in
                    let answer = try await LabProcess.run(
                        Self.small + ["--serve", script.path, "--seed", "7", "--count", "1", "--keep", keep.path])
                    #expect(answer.status == 1)
                    #expect(answer.output.contains("0 passed, 1 failed"), "\(answer.complaint)")
                }
                #expect(FileManager.default.fileExists(atPath: keep.appendingPathComponent("7/manifest.json").path))
            }
        }
    }

    private static let small = ["fuzz", "damage", "--files", "1", "--changesets", "2"]

    /// The fourth server says that it has begun, and nothing more.
    private static let silentScript = """
        [ $(wc -l < "$PROCESSES") -le 3 ] && exec "$SERVER" "$@"
        echo > "$BEGUN"
        exec sleep 600
        """

    @Test(arguments: [SIGINT, SIGTERM]) func whoEndsTheCommandEndsItsServers(signal: Int32) async throws {
        try await withDirectory { directory async throws in
            try await withScript(Self.silentScript) { script async throws in
                let lab = try LabProcess(
                    Self.small + ["--serve", script.path, "--count", "4", "--jobs", "2"], temporary: directory)
                try script.waitUntilBegun()
                if signal == SIGINT {
                    lab.send(SIGINT)
                    try lab.waitForComplaint("Ctrl-C again")
                }
                lab.send(signal)
                #expect(try await lab.end().status == 128 + signal)
                for process in try script.processes { #expect(kill(process, 0) == -1, "process \(process) runs on") }
                #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["more"])
            }
        }
    }

    @Test func aServerThatDoesNotStartIsAnError() async throws {
        let answer = try await LabProcess.run(["fuzz", "damage", "--serve", "no/such/program"])
        #expect(answer.status == 1)
        #expect(answer.complaint.contains("no/such/program"))
    }
}
