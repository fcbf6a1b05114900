import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// A file that clients have written to, and what is made of it in bootstrap generations.
final class GenerationFixture {
    let test: TestStore
    private(set) var file: SyncedFile
    private(set) var writer: MemoryClient
    private var number: Int64 = 0

    init(_ kind: StoreKind, writes: Int = 20) throws {
        test = try TestStore(kind)
        file = try SyncedFile.open(in: test.store, keepsState: true)
        writer = MemoryClient(try file.allocateIdent())
        try writer.commit(ChangesetWriter.schema, at: 1)
        try writer.write(at: 1) { tx in for key in 0..<5 as Range<Int64> { try tx.create("T", key: .int(key)) } }
        try writer.upload(to: file)
        try write(writes)
    }

    /// The writer has everything then, and the server knows.
    func write(_ count: Int) throws {
        for _ in 0..<count {
            number += 1
            try writer.commit(ChangesetWriter.setting(number % 5, to: number), at: ChangesetTime(UInt64(number)))
            try writer.upload(to: file)
        }
        try writer.download(from: file)
        try file.change(writer.ident) {
            ($0.uploadCursor.serverVersion, $0.lockedVersion) = (file.version, file.version)
        }
    }

    func restart() throws {
        try test.restart()
        file = try SyncedFile.open(in: test.store, keepsState: true)
    }

    func state() throws -> StateDigest { try file.withState { try StateDigest(of: $0) } }

    /// A generation of the state as it is, and a log that begins where it may.
    func trimmed() throws -> Generation {
        let generation = try file.makeGeneration(endingAt: 1)
        try file.trim(upTo: file.floor(upTo: generation.version))
        return generation
    }
}

extension HistoryPolicy {
    /// Under which a generation is due as soon as anything was written.
    static func generating(endingAt bytes: Int = 30) -> HistoryPolicy {
        var policy = HistoryPolicy()
        (policy.generationBytes, policy.generationRatio, policy.generationEntryBytes) = (0, 0, bytes)
        return policy
    }
}

extension SyncedFile {
    /// A round that makes a generation, and trims nothing.
    static func generatingRound(endingAt bytes: Int = 30) -> MaintenanceRound {
        MaintenanceRound(.generating(endingAt: bytes), at: 1000, expires: false, connected: [], upTo: 0)
    }

    @discardableResult
    func makeGeneration(endingAt bytes: Int = 30) throws -> Generation {
        _ = try run(Self.generatingRound(endingAt: bytes))
        return try #require(try generations().last)
    }

    /// The entries of a generation, as clients are sent them.
    func entries(of generation: Generation) throws -> [LogEntry] {
        try read { view throws(HistoryError) in
            try view.readGeneration(generation.version) { entries throws(HistoryError) in
                try entries.entries(in: VersionRange(after: 0, through: .largest), byteBudget: .max)
            }
        }
    }

    /// The state that a generation makes of nothing.
    func state(madeBy generation: Generation) throws -> StateDigest {
        var state = ObjectGraph()
        #expect(try state.replay(entries(of: generation)).skippedCount == 0)
        return try StateDigest(of: state)
    }

    func change(_ ident: ClientFileID, _ body: (inout ClientFile) -> Void) throws {
        var row = try #require(try clientFile(ident))
        body(&row)
        try commit([row], at: head)
    }
}
