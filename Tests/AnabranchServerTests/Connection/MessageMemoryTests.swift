import AnabranchProtocol
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import AnabranchServer

/// Long messages on their way in (`Spec/Limits.md`, section 7).
@Suite struct MessageMemoryTests {
    private final class Fixture {
        /// Counts the readings that reach the socket.
        final class Socket: ChannelOutboundHandler {
            typealias OutboundIn = ByteBuffer

            private(set) var readCount = 0

            func read(context: ChannelHandlerContext) {
                readCount += 1
                context.read()
            }
        }

        static let messageBytesMax = 32 << 20
        static let permitBytes = messageBytesMax - MessageMemory.freeBytesMax

        let channel = EmbeddedChannel()
        let socket = Socket()
        let memory: MessageMemory
        private let counts: Counts

        final class Counts {
            var stalls = 0
            var excesses = 0
        }

        var stalls: Int { counts.stalls }
        var excesses: Int { counts.excesses }

        init(
            _ budget: MemoryBudget = MemoryBudget(bytesMax: .max), isIdentified: Bool = true,
            turns: MemoryBudget = MemoryBudget(bytesMax: .max)
        ) throws {
            let counts = Counts()
            memory = MessageMemory(
                messageBytesMax: Self.messageBytesMax, queryBytesMax: 0, limit: .seconds(60), budget: budget,
                turns: turns
            ) { counts.stalls += 1 }
            memory.onExcess = { counts.excesses += 1 }
            memory.isIdentified = isIdentified
            self.counts = counts
            try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
            try channel.pipeline.syncOperations.addHandlers([socket, memory])
        }

        func receive(bytes: Int) throws { try channel.writeInbound(ByteBuffer(repeating: 7, count: bytes)) }

        func wait(seconds: Int64) { channel.embeddedEventLoop.advanceTime(by: .seconds(seconds)) }
    }

    @Test(arguments: [(-1, 0), (0, 0), (1, 1)])
    func beforeTheFirstIdentMessagesAreShort(more: Int, excesses: Int) throws {
        for isIdentified in [false, true] {
            let fixture = try Fixture(isIdentified: isIdentified)
            try fixture.receive(bytes: MessageMemory.unidentifiedBytesMax + more)
            #expect(fixture.excesses == (isIdentified ? 0 : excesses))
        }
    }

    @Test(arguments: [(-1, false), (0, false), (1, true)])
    func aLongMessageNeedsAPermitUntilItIsWhole(more: Int, needsPermit: Bool) throws {
        let budget = MemoryBudget(bytesMax: 64 << 20), fixture = try Fixture(budget)
        try fixture.receive(bytes: 3 << 20)
        try fixture.receive(bytes: MessageMemory.freeBytesMax - 3 << 20 + more)
        #expect(budget.bytesInUse == (needsPermit ? Fixture.permitBytes : 0))
        #expect(!fixture.memory.isReadHeld)
        let permit = fixture.memory.endFrame(messageBytes: nil)
        #expect(permit?.bytes == (needsPermit ? 1 : nil), "what it has beyond what is free")
        #expect(budget.bytesInUse == permit?.bytes ?? 0)
        _ = consume permit
        #expect(budget.bytesInUse == 0)
        try fixture.receive(bytes: MessageMemory.freeBytesMax)
        #expect(budget.bytesInUse == 0, "it is another message")
    }

    @Test func withoutAPermitTheSocketIsNotRead() throws {
        let budget = MemoryBudget(bytesMax: 64 << 20), fixture = try Fixture(budget)
        budget.reserve(budget.bytesInUse + 64 << 20)
        try fixture.receive(bytes: MessageMemory.freeBytesMax + 1)
        #expect(fixture.memory.isReadHeld)
        let before = fixture.socket.readCount
        fixture.channel.read()
        #expect(fixture.socket.readCount == before)
        fixture.wait(seconds: 1_000)
        #expect(fixture.stalls == 0 && fixture.channel.isActive, "it is not the client that stops")
        budget.release(64 << 20)
        fixture.channel.embeddedEventLoop.run()
        #expect(!fixture.memory.isReadHeld && fixture.socket.readCount == before + 1)
        #expect(budget.bytesInUse == Fixture.permitBytes)
    }

    @Test("while others wait, 1 MiB has to come each minute", arguments: -1...1)
    func stall(more: Int) throws {
        let budget = MemoryBudget(bytesMax: Fixture.permitBytes), fixture = try Fixture(budget)
        try fixture.receive(bytes: MessageMemory.freeBytesMax + 1)
        let wait = budget.wait(for: 1) { _ in }
        defer { withExtendedLifetime(wait) {} }
        fixture.wait(seconds: 59)
        try fixture.receive(bytes: MessageMemory.bytesMin + more)
        fixture.wait(seconds: 1)
        #expect(fixture.channel.isActive == (more >= 0))
        fixture.wait(seconds: 60)
        #expect(!fixture.channel.isActive && fixture.stalls == 1)
        #expect(budget.bytesInUse == 0)
    }

    @Test("while nobody waits, a message may come slowly, but has to come", arguments: [0, 1])
    func slow(bytes: Int) throws {
        let fixture = try Fixture(MemoryBudget(bytesMax: 64 << 20))
        try fixture.receive(bytes: MessageMemory.freeBytesMax + 1)
        for _ in 0..<3 {
            fixture.wait(seconds: 59)
            try fixture.receive(bytes: bytes)
            fixture.wait(seconds: 1)
        }
        #expect(fixture.channel.isActive == (bytes > 0) && fixture.stalls == 1 - bytes)
    }

    /// Nine such clients would keep all others out for half an hour.
    @Test("while others wait, a message has two minutes, however steadily it comes", arguments: [false, true])
    func slowWhileOthersWait(othersWait: Bool) throws {
        let budget = MemoryBudget(bytesMax: Fixture.permitBytes), fixture = try Fixture(budget)
        try fixture.receive(bytes: MessageMemory.freeBytesMax + 1)
        let wait = othersWait ? budget.wait(for: 1) { _ in } : nil
        defer { withExtendedLifetime(wait) {} }
        for _ in 0..<2 {
            #expect(fixture.channel.isActive)
            fixture.wait(seconds: 59)
            try fixture.receive(bytes: 8 * MessageMemory.bytesMin)
            fixture.wait(seconds: 1)
        }
        #expect(fixture.channel.isActive == !othersWait && fixture.stalls == (othersWait ? 1 : 0))
    }

    // MARK: Several connections of a user

    @Test func unlessHalfOfTheMemoryIsFreeAUserSendsOneLongMessageAtATime() throws {
        let budget = MemoryBudget(bytesMax: 5 * Fixture.permitBytes), turns = MemoryBudget(bytesMax: 1)
        let ofOne = try (0..<5).map { _ in try Fixture(budget, turns: turns) }
        let other = try Fixture(budget, turns: MemoryBudget(bytesMax: 1))
        for fixture in ofOne { try fixture.receive(bytes: MessageMemory.freeBytesMax + 1) }
        #expect(ofOne.map(\.memory.isReadHeld) == [false, false, true, true, true])
        try other.receive(bytes: MessageMemory.freeBytesMax + 1)
        #expect(!other.memory.isReadHeld)
        // The turn ends with the first message, and the next one has it.
        let permit = ofOne[0].memory.endFrame(messageBytes: nil)
        for fixture in ofOne { fixture.channel.embeddedEventLoop.run() }
        #expect(ofOne.map(\.memory.isReadHeld) == [false, false, false, true, true])
        #expect(budget.bytesInUse == 3 * Fixture.permitBytes + (permit?.bytes ?? 0))
        for fixture in ofOne { fixture.channel.close(promise: nil) }
        for fixture in ofOne { fixture.channel.embeddedEventLoop.run() }
        #expect(turns.bytesInUse == 0 && turns.waitingCount == 0)
    }

    @Test func whoHasTheTurnWaitsForMemoryLikeEverybody() throws {
        let budget = MemoryBudget(bytesMax: Fixture.permitBytes), turns = MemoryBudget(bytesMax: 1)
        let first = try Fixture(budget, turns: turns), second = try Fixture(budget, turns: turns)
        budget.reserve(Fixture.permitBytes)
        for fixture in [first, second] { try fixture.receive(bytes: MessageMemory.freeBytesMax + 1) }
        #expect(budget.waitingCount == 1 && turns.waitingCount == 1)
        first.channel.close(promise: nil)
        second.channel.embeddedEventLoop.run()
        #expect(budget.waitingCount == 1 && turns.waitingCount == 0 && second.memory.isReadHeld)
        budget.release(Fixture.permitBytes)
        second.channel.embeddedEventLoop.run()
        #expect(!second.memory.isReadHeld && budget.bytesInUse == Fixture.permitBytes)
    }

    @Test func whoHasTheTurnIsNotSlowWhileTheUserWaits() throws {
        let budget = MemoryBudget(bytesMax: Fixture.permitBytes), turns = MemoryBudget(bytesMax: 1)
        let first = try Fixture(budget, turns: turns), second = try Fixture(budget, turns: turns)
        for fixture in [first, second] { try fixture.receive(bytes: MessageMemory.freeBytesMax + 1) }
        try first.receive(bytes: 1)
        first.wait(seconds: 60)
        #expect(!first.channel.isActive && first.stalls == 1)
        second.channel.embeddedEventLoop.run()
        #expect(!second.memory.isReadHeld)
    }

    // MARK: To the client

    @Test("while others wait, a client has to read a DOWNLOAD that has a permit", arguments: [true, false])
    func outbound(isHeld: Bool) throws {
        let budget = MemoryBudget(bytesMax: 1), fixture = try Fixture(budget)
        var body = EncodedBody.empty
        body.attachment = MessageAttachment(try #require(budget.permit(for: 1)))
        fixture.memory.countOutbound(.download(.beginning, body))
        #expect(fixture.memory.outboundBytesMin == StallDetector.bytesMin, "nobody waits")
        budget.reserve(1)
        let wait = budget.wait(for: 1) { _ in }
        if !isHeld { body = .empty }
        #expect(budget.waitingCount == 1)
        #expect(fixture.memory.outboundBytesMin == (isHeld ? MessageMemory.bytesMin : StallDetector.bytesMin))
        withExtendedLifetime((body, wait)) {}
    }

    @Test func whoeverLeavesTakesNoPermitAlong() throws {
        let budget = MemoryBudget(bytesMax: 28 << 20)
        let first = try Fixture(budget), second = try Fixture(budget), third = try Fixture(budget)
        for fixture in [first, second, third] { try fixture.receive(bytes: MessageMemory.freeBytesMax + 1) }
        #expect([first, second, third].map(\.memory.isReadHeld) == [false, true, true])
        for fixture in [second, first] { fixture.channel.close(promise: nil) }
        for fixture in [first, second, third] { fixture.channel.embeddedEventLoop.run() }
        #expect(!third.memory.isReadHeld && budget.bytesInUse == 28 << 20)
        third.channel.close(promise: nil)
        #expect(budget.bytesInUse == 0 && budget.waitingCount == 0)
    }

    @Test func whenTheConnectionIsOverNothingMoreIsKept() throws {
        let budget = MemoryBudget(bytesMax: 64 << 20), fixture = try Fixture(budget)
        fixture.memory.discard()
        for _ in 0..<8 { try fixture.receive(bytes: MessageMemory.freeBytesMax) }
        #expect(try fixture.channel.readInbound(as: ByteBuffer.self) == nil)
        #expect(budget.bytesInUse == 0)
    }

    @Test("what has come of a long message when the connection is over stays no longer than a stall")
    func discardedLongMessage() throws {
        let budget = MemoryBudget(bytesMax: 64 << 20), fixture = try Fixture(budget)
        try fixture.receive(bytes: MessageMemory.freeBytesMax + 1)
        fixture.memory.discard()
        try fixture.receive(bytes: MessageMemory.bytesMin)
        #expect(budget.bytesInUse == Fixture.permitBytes)
        fixture.wait(seconds: 60)
        #expect(!fixture.channel.isActive && budget.bytesInUse == 0)
    }
}
