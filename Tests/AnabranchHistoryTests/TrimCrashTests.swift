import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// The effect of a crash on a trim (`Spec/BoundedHistory.md`, section 6).
@Suite struct TrimCrashTests {
    /// At whatever byte the write-ahead log ends, the trim is there as a whole or not at all, and clients go on.
    @Test(arguments: HistoryPolicy.Keep.allCases)
    func aTrimIsThereAsAWholeOrNotAtAll(keep: HistoryPolicy.Keep) throws {
        let directory = try TemporaryDirectory()
        let store = try SQLiteStore(oneShardIn: directory.path)
        let file = try SyncedFile.open(in: store, keepsState: true)
        var client = MemoryClient(try file.allocateIdent())
        try client.commit(ChangesetWriter.schema, at: 1)
        try client.write(at: 1) { try $0.create("T", key: 1) }
        for number in 1...30 as ClosedRange<Int64> {
            try client.commit(ChangesetWriter.setting(1, to: number), at: ChangesetTime(UInt64(number)))
            try client.upload(to: file)
            try client.download(from: file)
        }
        let log = URL(fileURLWithPath: directory.path + "/shard-00.sqlite-wal")
        let entries = try file.log(), floor = try file.floor(upTo: file.version)
        // Sealing is another commit.
        if keep == .archive { while let commit = try file.sealIfDue(upTo: floor) { try file.commit(commit) } }
        let before = try Data(contentsOf: log).count
        try file.trim(upTo: floor, keep: keep)
        let after = try Data(contentsOf: log), base = file.head.baseVersion
        #expect(base > 20 && after.count > before)
        var bases: Set<ServerVersion> = []
        for size in Array(stride(from: before, to: after.count, by: 1_500)) + [after.count] {
            let copy = try TemporaryDirectory(copyingManifestOf: directory.path)
            for (name, content) in [
                ("shard-00.sqlite", try Data(contentsOf: URL(fileURLWithPath: directory.path + "/shard-00.sqlite"))),
                ("shard-00.sqlite-wal", after.prefix(size)),
            ] { try content.write(to: URL(fileURLWithPath: copy.path + "/" + name)) }
            let expected = keep == .archive ? entries : nil
            bases.insert(try goOn(in: copy.path, client, archiveAndLog: expected))
        }
        #expect(bases == [0, base])
        try store.close()
    }

    /// - Parameter expected: what archive and log have together; nil if there is no archive.
    /// - Returns: the version after which the log began.
    private func goOn(
        in directory: String, _ client: MemoryClient, archiveAndLog expected: [LogEntry]?
    ) throws -> ServerVersion {
        let store = try SQLiteStore(directory: directory)
        let file = try SyncedFile.open(in: store, keepsState: true)
        let base = file.head.baseVersion
        #expect(try file.archive() == expected.map { Array($0.prefix(Int(base.rawValue))) } ?? [])
        if let expected { #expect(try file.archive() + file.log() == expected) }
        var client = client
        _ = try file.identify(client.identRequest)
        client.startSession()
        try client.commit(ChangesetWriter.setting(1, to: 99), at: 99)
        try client.upload(to: file)
        try client.download(from: file)
        #expect(try StateDigest(of: client.state) == file.withState { try StateDigest(of: $0) })
        try store.close()
        var damages: [StoreDamage] = []
        try StoreVerification(directory: directory).checkFiles { damages += $0.damages }
        #expect(damages == [], "a log that begins after \(base)")
        return base
    }
}
