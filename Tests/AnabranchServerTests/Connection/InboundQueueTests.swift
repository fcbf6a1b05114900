import NIOCore
import Synchronization
import Testing

@testable import AnabranchServer

/// The messages that are handled and read while memory is short (`Spec/Limits.md`, section 7).
@Suite struct InboundQueueTests {
    /// `#expect` takes no value that cannot be copied.
    private final class Fixture {
        var queue: InboundQueue

        init(_ budget: MemoryBudget = MemoryBudget(bytesMax: 0), waitingBytesMax: Int = 100) {
            queue = InboundQueue(waitingBytesMax: waitingBytesMax, budget: budget)
        }

        func next(orElse grant: @escaping InboundQueue.Grant = { _, _ in }) -> MessageAssembler.Event? {
            queue.next(orElse: grant)
        }

        func isRead(isDraining: Bool = false) -> Bool { queue.allowsReading(isDraining: isDraining) }

        func resumes() -> Bool { queue.resumesReading() }

        var isReadHeld: Bool { queue.isReadHeld }
    }

    private typealias Grant = (permit: MemoryPermit, number: Int)

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
        let budget = MemoryBudget(bytesMax: 100), grants = Mutex<[Grant]>([])
        budget.reserve(100)
        let fixture = Fixture(budget)
        for event in [Self.ping, Self.upload, Self.ping] { fixture.queue.append(event) }
        let grant = { @Sendable (permit: MemoryPermit, number: Int) in
            grants.withLock { $0.append((permit, number)) }
        }
        #expect(fixture.next(orElse: grant) == Self.ping)
        for _ in 0..<3 { #expect(fixture.next(orElse: grant) == nil) }
        #expect(!fixture.isRead())
        budget.release(20)
        #expect(grants.withLock { $0.isEmpty }, "the UPLOAD has 21 bytes")
        budget.release(1)
        #expect(fixture.next(orElse: grant) == nil, "nobody has told the queue yet")
        grants.withLock { $0.popLast() }.map { fixture.queue.take($0, ofWait: $1) }
        #expect(fixture.next(orElse: grant) == Self.upload)
        #expect(budget.bytesInUse == 100, "the UPLOAD is being handled")
        #expect(fixture.next(orElse: grant) == Self.ping)
        #expect(budget.bytesInUse == 79)
        #expect(grants.withLock { $0.isEmpty })
    }

    /// Nine messages of others must not keep everybody from uploading.
    @Test(arguments: [
        ("upload 1 0 900 0 0 0 0\n", 0, 900, true),
        ("upload 1 0 900 0 0 0 0\n", InboundQueue.shortUploadBytesMax - 923, 900, true),
        ("upload 1 0 900 0 0 0 0\n", InboundQueue.shortUploadBytesMax - 922, 900, false),
        ("upload 1 1 900 9 0 0 0\n", 0, 9, true), ("upload 1 1 300000 9 0 0 0\n", 0, 9, false),
        ("upload 1 1 x 9 0 0 0\n", 0, 9, false),
    ])
    func aShortUploadPassesUnlessItsConnectionHasMuchWaiting(
        head: String, waitingBytes: Int, bodyBytes: Int, passes: Bool
    ) {
        let budget = MemoryBudget(bytesMax: 100_000)
        let fixture = Fixture(budget, waitingBytesMax: InboundQueue.shortUploadBytesMax)
        budget.reserve(100_000)
        fixture.queue.requestWaits(waitingBytes)
        fixture.queue.append(Self.message(head + String(repeating: "x", count: bodyBytes)))
        #expect((fixture.next() != nil) == passes)
        #expect(budget.bytesInUse == 100_000 + (passes ? max(900, head.utf8.count + bodyBytes) : 0))
    }

    /// A file keeps the sets of queries until it comes to them.
    @Test(arguments: [
        ("query", 0, true), ("ident", 0, true), ("query", 1, false), ("ident", 1, false), ("ping", 1, true),
    ])
    func longSetsOfQueriesWaitForTheBudget(kind: String, more: Int, passes: Bool) {
        let budget = MemoryBudget(bytesMax: 8 << 20), fixture = Fixture(budget)
        budget.reserve(8 << 20)
        let set = String(repeating: "x", count: InboundQueue.shortUploadBytesMax + more - kind.utf8.count - 1)
        fixture.queue.append(Self.message("\(kind) \(set)"))
        #expect((fixture.next() != nil) == passes)
    }

    @Test(arguments: [(-1, true), (0, true), (1, false)])
    func whatAnUploadHasWhenItIsInflatedMakesItShortOrLong(more: Int, passes: Bool) {
        let budget = MemoryBudget(bytesMax: 8 << 20), fixture = Fixture(budget)
        let bytes = InboundQueue.shortUploadBytesMax + more
        budget.reserve(8 << 20)
        fixture.queue.append(Self.message("upload 1 1 \(bytes) 9 0 0 0\n123456789"))
        #expect((fixture.next() != nil) == passes)
        #expect(budget.bytesInUse == 8 << 20 + (passes ? bytes : 0))
    }

    @Test func shortUploadsExceedTheLimitByAnEighth() {
        let budget = MemoryBudget(bytesMax: 800)
        budget.reserve(850)
        #expect(budget.permitBeyondLimit(for: 51) == nil)
        let permit = budget.permitBeyondLimit(for: 50)
        #expect(permit != nil && budget.bytesInUse == 900)
    }

    private static func upload(bytes: Int) -> MessageAssembler.Event {
        message("upload 1 0 \(bytes) 0 0 0 0\n" + String(repeating: "x", count: bytes))
    }

    /// What kept it from being short is done; others still use all there is.
    @Test func anUploadThatWaitsPassesWhenItHasBecomeShort() {
        let budget = MemoryBudget(bytesMax: 8 << 20)
        let fixture = Fixture(budget, waitingBytesMax: 1 << 20), bytes = InboundQueue.shortUploadBytesMax / 3
        budget.reserve(8 << 20)
        for _ in 0..<4 { fixture.queue.append(Self.upload(bytes: bytes)) }
        fixture.queue.append(Self.ping)
        for _ in 0..<2 {
            #expect(fixture.next() == Self.upload(bytes: bytes))
            fixture.queue.requestWaits(bytes)
        }
        #expect(fixture.next() == nil && budget.waitingCount == 1, "with its head it is a little too long")
        fixture.queue.requestsDone(bytes)
        #expect(fixture.next() == Self.upload(bytes: bytes))
        #expect(budget.waitingCount == 0)
        #expect(fixture.next() == Self.upload(bytes: bytes))
        #expect(fixture.next() == Self.ping)
    }

    /// The first one has become short while its permit was on its way.
    @Test func aPermitIsNotForTheNextUpload() {
        let budget = MemoryBudget(bytesMax: 8 << 20), grants = Mutex<[Grant]>([])
        let fixture = Fixture(budget, waitingBytesMax: 1 << 20), bytes = InboundQueue.shortUploadBytesMax
        budget.reserve(8 << 20)
        fixture.queue.requestWaits(bytes)
        for bytes in [1_000, 1 << 20] { fixture.queue.append(Self.upload(bytes: bytes)) }
        let next = {
            fixture.next { permit, number in grants.withLock { $0.append((permit, number)) } }
        }
        #expect(next() == nil)
        budget.release(2_000)
        fixture.queue.requestsDone(bytes)
        #expect(next() == Self.upload(bytes: 1_000))
        #expect(next() == nil && budget.waitingCount == 1)
        grants.withLock { $0.popLast() }.map { fixture.queue.take($0, ofWait: $1) }
        #expect(next() == nil && budget.waitingCount == 1)
        #expect(budget.bytesInUse == 8 << 20 - 2_000, "the permit has ended")
    }

    @Test func whatIsNotHandledAnyMoreNeedsNoMemory() {
        let budget = MemoryBudget(bytesMax: 100), grants = Mutex<[Grant]>([])
        budget.reserve(100)
        let fixture = Fixture(budget)
        fixture.queue.append(Self.upload)
        #expect(fixture.next { permit, number in grants.withLock { $0.append((permit, number)) } } == nil)
        fixture.queue.removeAll()
        #expect(budget.waitingCount == 0)
    }

    @Test func aPermitThatComesTooLateEnds() {
        let budget = MemoryBudget(bytesMax: 100), grants = Mutex<[Grant]>([])
        budget.reserve(100)
        let fixture = Fixture(budget)
        fixture.queue.append(Self.upload)
        #expect(fixture.next { permit, number in grants.withLock { $0.append((permit, number)) } } == nil)
        budget.release(100)
        fixture.queue.removeAll()
        grants.withLock { $0.popLast() }.map { fixture.queue.take($0, ofWait: $1) }
        #expect(budget.bytesInUse == 0)
    }

    @Test func theMemoryOfALongMessageIsKeptUntilItHasBeenHandled() {
        let budget = MemoryBudget(bytesMax: 100), fixture = Fixture()
        fixture.queue.append(Self.ping, budget.permit(for: 70))
        #expect(fixture.next() == Self.ping)
        #expect(budget.bytesInUse == 70)
        #expect(fixture.next() == nil)
        #expect(budget.bytesInUse == 0)
    }
}
