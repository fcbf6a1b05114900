import NIOCore
import Synchronization
import Testing

@testable import AnabranchServer

/// What is handled and read while memory is short (`Spec/Limits.md`, section 7).
@Suite struct InboundQueueTests {
    /// `#expect` takes no value that cannot be copied.
    private final class Fixture {
        var queue: InboundQueue

        init(_ budget: UploadMemoryBudget = UploadMemoryBudget(bytesMax: 0)) {
            queue = InboundQueue(waitingBytesMax: 100, budget: budget)
        }

        func next(orElse retry: @escaping @Sendable () -> Void = {}) -> MessageAssembler.Event? {
            queue.next(orElse: retry)
        }

        func isRead(isDraining: Bool = false) -> Bool { queue.allowsReading(isDraining: isDraining) }

        func resumes() -> Bool { queue.resumesReading() }

        var isReadHeld: Bool { queue.isReadHeld }
    }

    private static let ping = message("ping 1 0\n"), upload = message("upload 1 0 0 0 0 0 0\n")

    private static func message(_ text: String) -> MessageAssembler.Event { .message(ByteBuffer(string: text)) }

    @Test func eventsComeOutInTheirOrder() {
        let fixture = Fixture()
        for event in [Self.upload, Self.ping, .close] { fixture.queue.append(event) }
        var handled: [MessageAssembler.Event] = []
        while let event = fixture.next() { handled.append(event) }
        #expect(handled == [Self.upload, Self.ping, .close])
    }

    @Test(arguments: [(100, true), (101, false)]) func theConnectionsOwnRequestsHoldEverythingBack(
        waitingBytes: Int, isHandled: Bool
    ) {
        let fixture = Fixture()
        fixture.queue.requestWaits(waitingBytes)
        fixture.queue.append(Self.ping)
        #expect((fixture.next() != nil) == isHandled)
    }

    @Test func readingResumesWhenHalfIsFreeAndNothingWaits() {
        let fixture = Fixture()
        #expect(fixture.isRead() && !fixture.isReadHeld)
        fixture.queue.requestWaits(101)
        #expect(!fixture.isRead() && fixture.isReadHeld)
        fixture.queue.requestsDone(50)
        #expect(!fixture.resumes(), "51 bytes wait")
        fixture.queue.requestsDone(1)
        fixture.queue.append(Self.ping)
        #expect(!fixture.resumes(), "an event waits")
        _ = fixture.next()
        #expect(fixture.resumes() && !fixture.isReadHeld)
        #expect(!fixture.resumes(), "it has been resumed")
    }

    @Test func nothingIsReadWhileTheConnectionDrains() {
        let fixture = Fixture()
        #expect(!fixture.isRead(isDraining: true) && fixture.isReadHeld)
    }

    /// The budget calls back once, however often the queue is asked in between.
    @Test func uploadsWaitForTheBudgetAndPingsDoNot() {
        let budget = UploadMemoryBudget(bytesMax: 10)
        let calls = Mutex(0)
        budget.reserve(11)
        let fixture = Fixture(budget)
        for event in [Self.ping, Self.upload, Self.ping] { fixture.queue.append(event) }
        let retry = { @Sendable in calls.withLock { $0 += 1 } }
        #expect(fixture.next(orElse: retry) == Self.ping)
        for _ in 0..<3 { #expect(fixture.next(orElse: retry) == nil) }
        #expect(!fixture.isRead())
        budget.release(1)
        #expect(calls.withLock { $0 } == 1)
        #expect(fixture.next(orElse: retry) == nil, "nobody has told the queue yet")
        fixture.queue.budgetHasRoom()
        #expect(fixture.next(orElse: retry) == Self.upload)
        #expect(fixture.next(orElse: retry) == Self.ping)
        #expect(calls.withLock { $0 } == 1)
    }
}
