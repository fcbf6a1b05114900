import AnabranchCore
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Whatever call of the disk fails: what was asked for fails with trouble of the store's own, or is done; nothing is
/// half done, nothing that was acknowledged is lost, and it works when it is asked for again (`Spec/Durability.md`).
@Suite struct FailingCallTests {
    /// Which calls fail, one in each run: `ANABRANCH_FAILING_CALLS` says another number.
    private static let callsMax =
        ProcessInfo.processInfo.environment["ANABRANCH_FAILING_CALLS"].flatMap { Int($0) } ?? 50

    @Test(arguments: [FaultFiles.Call.open, .write, .truncate, .sync], FaultFiles.Trouble.allCases)
    func everyCallMayFail(call: FaultFiles.Call, trouble: FaultFiles.Trouble) throws {
        let prepared = try PreparedStore()
        let expected = try #require(try FaultRun(prepared, nil).run())
        var failures = 0
        for number in 0..<Self.callsMax {
            let fault = FaultFiles.Fault(call: call, trouble: trouble, succeeding: number)
            let run = try FaultRun(prepared, fault)
            do {
                let found = try run.run()
                #expect(found == expected, "\(call) number \(number + 1), \(trouble)")
            } catch {
                Issue.record("\(call) number \(number + 1), \(trouble): \(error)")
                return
            }
            // There were fewer calls.
            if run.failureCount == 0 { break }
            failures += 1
        }
        #expect(failures > 2, "\(call)")
        print("FailingCallTests: \(failures) runs with a failed call, \(call), \(trouble)")
    }

    /// A disk that fails while a store and accounts are made leaves nothing that keeps them from being made.
    @Test(arguments: [FaultFiles.Call.open, .write, .truncate, .sync, .delete])
    func everyCallMayFailWhileAStoreIsMade(call: FaultFiles.Call) throws {
        for number in 0..<Self.callsMax {
            let folder = try TemporaryDirectory(), disk = try FaultFiles(in: folder.path)
            disk.set(FaultFiles.Fault(call: call, trouble: .failure, succeeding: number))
            for isLast in [false, true] {
                do {
                    let store = try SQLiteStore(directory: folder.path, options: .init(shards: 2))
                    let file = try SyncedFile.open(in: store, keepsState: true)
                    _ = try file.allocateIdent()
                    try store.close()
                    let accounts = try SQLiteAccountStore(directory: folder.path)
                    try accounts.add(User(ident: "\(isLast)", app: "a", identities: [], createdAt: 5))
                    try accounts.close()
                } catch let error as HistoryError where !isLast {
                    #expect(error.code == .storeFailed, "\(call) number \(number + 1): \(error)")
                } catch let error as AccountError where !isLast {
                    #expect(error.code == .storeFailed, "\(call) number \(number + 1): \(error)")
                } catch {
                    Issue.record("\(call) number \(number + 1): \(error)")
                    return
                }
                disk.set(nil)
            }
            let verification = try StoreVerification(directory: folder.path)
            #expect(try verification.checkDatabase() == [], "\(call) number \(number + 1)")
            try verification.checkFiles { #expect($0.damages == [], "\(call) number \(number + 1)") }
            if disk.failureCount == 0 { break }
        }
    }
}

/// A store with a file that two clients have written, in a folder to be copied.
private struct PreparedStore {
    let folder: TemporaryDirectory
    let clients: [MemoryClient]

    init() throws {
        folder = try TemporaryDirectory()
        let store = try SQLiteStore(oneShardIn: folder.path)
        let file = try SyncedFile.open(in: store, keepsState: true)
        var clients = try (0..<2).map { _ in MemoryClient(try file.allocateIdent()) }
        try clients[0].commit(ChangesetWriter.schema, at: 1)
        try clients[0].write(at: 1) { tx in for key in 0..<3 as Range<Int64> { try tx.create("T", key: .int(key)) } }
        try clients[0].upload(to: file)
        for index in clients.indices { try clients[index].download(from: file) }
        self.clients = clients
        try store.close()
    }
}

/// The steps on a copy of the store. Whatever fails is asked for again.
private final class FaultRun {
    struct Failure: Error, CustomStringConvertible { var description: String }

    private let folder: TemporaryDirectory
    private let disk: FaultFiles
    private let fault: FaultFiles.Fault?
    private var clients: [MemoryClient]
    private var number: UInt64 = 0

    init(_ prepared: PreparedStore, _ fault: FaultFiles.Fault?) throws {
        folder = try TemporaryDirectory(copyingManifestOf: prepared.folder.path)
        let shard = "/shard-00.sqlite"
        try FileManager.default.copyItem(atPath: prepared.folder.path + shard, toPath: folder.path + shard)
        clients = prepared.clients
        self.fault = fault
        disk = try FaultFiles(in: folder.path)
        disk.set(fault)
    }

    var failureCount: Int { disk.failureCount }

    /// - Returns: what is stored in the end.
    func run() throws -> StoredHistory? {
        var policy = HistoryPolicy()
        (policy.sealEntries, policy.generationBytes, policy.generationRatio, policy.keep) = (4, 100, 0, .archive)
        for _ in 0..<2 {
            let store = try asking { try SQLiteStore(directory: folder.path) }
            let file = try asking { try SyncedFile.open(in: store, keepsState: true) }
            for _ in 0..<6 { try exchange(file) }
            try asking { try checkpoint(store, .passive) }
            try asking { try file.maintain(at: 1000, policy) }
            for _ in 0..<2 { try exchange(file) }
            try asking { try checkpoint(store, .truncate) }
            try asking { try store.maintain(at: 1000) }
            try exchange(file)
            try survivesLossOfPower(store)
            // What is not moved into the database then is moved by the next one.
            try? store.close()
        }
        disk.set(nil)
        if let damage = try StoppedStore.allDamages(in: folder.path).first { throw Failure(description: "\(damage)") }
        let store = try SQLiteStore(directory: folder.path)
        defer { try? store.close() }
        return try StoredHistory(VirtualPath("/a"), in: store)
    }

    /// Both clients write, and read what the other one has written.
    private func exchange(_ file: SyncedFile) throws {
        for index in clients.indices {
            number += 1
            let ident = clients[index].ident
            try clients[index].commit(ChangesetWriter.setting(Int64(number % 3), to: Int64(number)), at: .init(number))
            guard let upload = clients[index].nextUpload() else { throw Failure(description: "nothing to upload") }
            try asking { if !file.hasQueuedUploads { try file.enqueue(upload, from: ident) } }
            let report = try asking { try file.integrate(at: 1000) }
            if let refusal = report.outcomes.compactMap(\.refusal).first { throw refusal }
        }
        for index in clients.indices {
            let client = clients[index]
            let download = try asking {
                try file.downloads(for: client.ident).download(after: client.download, byteBudget: .max)
            }
            try clients[index].integrate(download)
        }
    }

    private func checkpoint(_ store: SQLiteStore, _ kind: Database.CheckpointMode) throws {
        try translatingErrors {
            try store.shards[0].pool.writeWithoutTransaction { db in _ = try db.checkpoint(kind) }
        }
    }

    /// Asks again what has failed, when there is room.
    @discardableResult
    private func asking<Result>(_ body: () throws -> Result) throws -> Result {
        for _ in 0..<3 {
            do {
                return try body()
            } catch let error as HistoryError where error.code == .storeFailed {
                disk.set(nil)
            }
        }
        return try body()
    }

    /// A disk may lose what it could not flush, though programs still read it.
    private func survivesLossOfPower(_ store: SQLiteStore) throws {
        guard let fault, fault.call == .sync, failureCount > 0 else { return }
        let copy = try TemporaryDirectory(copyingManifestOf: folder.path)
        var random = SeededRandom(seed: 1)
        for case (let name, let content?) in disk.disk.image(of: .none, using: &random) {
            try Data(content).write(to: URL(fileURLWithPath: copy.path + "/" + name))
        }
        let left = try SQLiteStore(directory: copy.path), path = VirtualPath("/a")
        let (found, written) = (try StoredHistory(path, in: left), try StoredHistory(path, in: store))
        try left.close()
        guard found == written else {
            throw Failure(description: "after a loss of power: \(String(describing: found?.head))")
        }
    }
}
