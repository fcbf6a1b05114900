import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// A node of a flexible file whose client has a long merge, while another node writes (`Spec/Nodes.md`, section 8).
@Suite struct OvertakenViewTests {
    private static let missedMarks: ClosedRange<Int64> = 1...20, ownMarks: ClosedRange<Int64> = 21...28

    private let store = OvertakenStore()
    private let node: FlexibleFile
    private var client: MemoryClient
    private var session: ViewSession

    /// The client uploads changes of a list that others have changed as well.
    init() throws {
        let file = try SyncedFile(path: VirtualPath("app"), store: store)
        node = try FlexibleFile(file)
        try node.write(at: 1) { transaction in
            try transaction.addClass("Note", key: "_id", .int)
            try transaction.addColumn("marks", .int, collection: .list, to: "Note")
            try transaction.create("Note", key: .int(1))
        }
        (client, session) = try FlexibleFixture.join(file, node)
        try receive()
        #expect(try node.query(FlexibleFixture.all, in: &session) == nil)
        try receive()
        for number in Self.missedMarks { try node.write(at: 2) { try Self.mark(number, in: $0) } }
        for number in Self.ownMarks { try client.write(at: 3) { try Self.mark(number, in: $0) } }
        while let upload = client.nextUpload(.max), let rest = try session.progress.accept(upload) {
            node.enqueue(rest, from: client.ident, at: 1)
        }
    }

    private static func mark(_ number: Int64, in transaction: WriteTransaction) throws {
        try transaction.object("Note", key: 1)?.list("marks").insert(.int(number), at: 0)
    }

    private static func marks(in state: ObjectGraph) throws -> [Payload]? {
        try state.read { try $0.object("Note", key: 1)?.list("marks").values }
    }

    private mutating func receive() throws {
        while let message = try node.download(for: &session) { try client.integrate(message.download) }
    }

    private func step(until limit: StepLimit) throws {
        let outcomes =
            node.hasNewUploads
            ? try node.integrateNew(until: limit) : try node.integrateLong(until: limit).map { [$0] } ?? []
        #expect(outcomes.allSatisfy { $0.refusal == nil })
    }

    /// Integrates what waits, in the smallest steps.
    /// - Parameter overtakenReadings: how often the other node writes in each of them.
    /// - Returns: the number of steps, which may not be enough.
    private func integrate(overtakenReadings: Int = 0) throws -> Int {
        var count = 0
        while node.waitingClientCount > 0, count < 10_000 {
            count += 1
            store.readingsLeft = overtakenReadings
            try step(until: .smallest)
        }
        return count
    }

    /// All changes are in the log, each once, and the client has the same state.
    private mutating func verify() throws {
        let ident = client.ident
        #expect(node.waitingClientCount == 0)
        #expect(try node.file.log().count { $0.origin == ident } == Self.ownMarks.count)
        try receive()
        let marks = try Self.marks(in: node.currentState())
        #expect(marks?.count == Self.missedMarks.count + Self.ownMarks.count)
        #expect(try Self.marks(in: client.state) == marks)
    }

    @Test mutating func aMergeGoesOnIfAnotherNodeWritesDuringEachStep() throws {
        _ = try integrate(overtakenReadings: 1)
        store.readingsLeft = 0
        try verify()
    }

    @Test mutating func aMergedWindowIsKeptUntilItsCommitFits() throws {
        let alone = try Self().integrate()
        #expect(alone > Self.missedMarks.count)
        store.commitsLeft = 3
        #expect(try integrate() == alone)
        #expect(store.commitsLeft == 0)
        try verify()
    }

    /// Other clients have their turns, and the next commits are smaller.
    @Test mutating func aStepEndsThoughNoCommitFits() throws {
        store.commitsLeft = 2_000
        try step(until: .none)
        #expect(store.commitsLeft == 2_000 - 8)
        #expect(node.waitingClientCount == 1 && !node.hasNewUploads && node.hasLongUploads)
        store.commitsLeft = 0
        while node.waitingClientCount > 0 { try step(until: .none) }
        try verify()
    }
}
