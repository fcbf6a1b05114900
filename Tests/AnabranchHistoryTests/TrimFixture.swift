import AnabranchCore
import AnabranchTesting

@testable import AnabranchHistory

/// A file with a client that writes all the time, and one that wrote once.
final class TrimFixture {
    let test: TestStore
    private(set) var file: SyncedFile
    private(set) var writer: MemoryClient
    private(set) var quiet: MemoryClient
    private var number: Int64 = 0
    private let tailBytesMax: Int

    init(_ kind: StoreKind, tailBytesMax: Int = 4 << 20, writes: Int = 20) throws {
        self.tailBytesMax = tailBytesMax
        test = try TestStore(kind)
        file = try SyncedFile.open(in: test.store, keepsState: true, tailBytesMax: tailBytesMax)
        writer = MemoryClient(try file.allocateIdent())
        quiet = MemoryClient(try file.allocateIdent())
        try quiet.commit(ChangesetWriter.schema, at: 1)
        try quiet.write(at: 1) { tx in for key in 0..<3 as Range<Int64> { try tx.create("T", key: .int(key)) } }
        try sync()
        try write(writes)
    }

    func write(_ count: Int) throws {
        for _ in 0..<count {
            number += 1
            try writer.commit(ChangesetWriter.setting(number % 3, to: number), at: ChangesetTime(UInt64(number)))
            try sync()
        }
    }

    /// Both have everything, and have said so.
    func sync() throws {
        for _ in 0..<2 {
            try sync(&quiet)
            try sync(&writer)
        }
    }

    private func sync(_ client: inout MemoryClient) throws {
        while let upload = client.nextUpload() { try file.integrateAtOnce(upload, from: client.ident) }
        let source = file.downloads(for: client.ident)
        try client.integrate(try source.download(after: client.download, byteBudget: .max))
        while let upload = client.nextUpload() { try file.integrateAtOnce(upload, from: client.ident) }
    }

    func restart() throws {
        try test.restart()
        file = try SyncedFile.open(in: test.store, keepsState: true, tailBytesMax: tailBytesMax)
    }

    func state() throws -> StateDigest { try file.withState { try StateDigest(of: $0) } }

    func isWhole() throws -> Bool {
        try StateDigest(of: writer.state) == state() && StateDigest(of: quiet.state) == state()
    }
}
