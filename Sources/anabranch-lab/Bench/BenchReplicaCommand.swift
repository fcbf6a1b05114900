import AnabranchClient
import AnabranchCore
import AnabranchReplica
import AnabranchTesting
import ArgumentParser
import Foundation

struct BenchReplicaCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replica",
        abstract: "Measure what applications wait for: opening a replica, writing to it, merging a download.",
        discussion: """
            Prints a JSON line each, medians in milliseconds:
              open           a file with --objects objects of five fields is opened, and one of them is read
              write          a local transaction with one change; processor time, so without the flush to the disk
              erase          the same, and the change erases an object that another one links to
              merge          a download of --instructions instructions on a list is integrated while as many local \
            ones wait; beside it what transforming and applying alone take, in memory

            EXAMPLES
              anabranch-lab bench replica --objects 100000 --instructions 16000
            """)

    @Option(help: "How many objects the replica has.")
    var objects = 100_000

    @Option(help: "How many instructions each side of the merge has.")
    var instructions = 16_000

    @Option(help: "How often each is measured; the merge five times.")
    var repeats = 200

    func validate() throws {
        guard objects > 1, instructions > 0, repeats > 0 else {
            throw ValidationError("There must be two objects, an instruction and one measurement.")
        }
    }

    func run() throws {
        BenchEnvironment.show()
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("anabranch-bench-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("notes.replica").path
        try fill(path)
        try measureOpening(path)
        try measureWriting(path)
        try measureMerging(folder.appendingPathComponent("list.replica").path)
    }

    // MARK: One file

    private func fill(_ path: String) throws {
        var replica = try Replica(try SQLiteReplicaStore(path: path))
        try replica.identify(as: SaltedFileID(ident: 2, salt: 1))
        for first in stride(from: 0, to: objects, by: 10_000) {
            let numbers = first..<min(first + 10_000, objects)
            try replica.write(at: 1) { try BenchNotes.write(numbers, to: $0) }
        }
        // The server has all of it.
        var progress = replica.progress
        progress.cursor = DownloadCursor(serverVersion: 10, clientVersion: replica.version)
        progress.upload = UploadCursor(clientVersion: replica.version, serverVersion: 10)
        try replica.integrate(Download(progress: progress))
        try replica.store.close()
    }

    private func measureOpening(_ path: String) throws {
        var durations: [Duration] = []
        for _ in 0..<10 {
            let clock = ContinuousClock(), start = clock.now
            let replica = try Replica(try SQLiteReplicaStore(path: path))
            _ = try replica.state.read { try $0.object("Note", key: 1)?.value("title") }
            durations.append(clock.now - start)
            try replica.store.close()
        }
        print(String(format: #"{"name":"open","objects":%ld,"ms":%.2f}"#, objects, durations.median.inMilliseconds))
    }

    private func measureWriting(_ path: String) throws {
        var replica = try Replica(try SQLiteReplicaStore(path: path)), random = SeededRandom(seed: 1)
        var (writes, erasures): ([Double], [Double]) = ([], [])
        func milliseconds(_ body: (WriteTransaction, DynamicObject) throws -> Void) throws -> Double {
            let key = PrimaryKey.int(Int64(random.below(objects - 1))), start = ProcessorTime.milliseconds
            try replica.write(at: 2) { transaction in
                if let note = try transaction.object("Note", key: key) { try body(transaction, note) }
            }
            return ProcessorTime.milliseconds - start
        }
        for number in 0..<repeats {
            writes.append(try milliseconds { _, note in try note.set("count", to: .int(Int64(number))) })
            erasures.append(try milliseconds { transaction, note in try transaction.delete(note) })
        }
        for (name, times) in [("write", writes), ("erase", erasures)] {
            print(String(format: #"{"name":"%@","objects":%ld,"ms":%.3f}"#, name, objects, times.sorted()[repeats / 2]))
        }
        try replica.store.close()
    }

    // MARK: A merge

    private func measureMerging(_ path: String) throws {
        var (integrations, parts): ([Duration], [Duration]) = ([], [])
        for number in 0..<5 {
            let (integration, part) = try mergeOnce("\(path)-\(number)")
            integrations.append(integration)
            parts.append(part)
        }
        print(
            String(
                format: #"{"name":"merge","instructions":%ld,"ms":%.1f,"transform_apply_ms":%.1f}"#, instructions,
                integrations.median.inMilliseconds, parts.median.inMilliseconds))
    }

    /// - Returns: the time of an integration, and the time of transforming and applying.
    private func mergeOnce(_ path: String) throws -> (Duration, Duration) {
        let other = try list(MemoryReplicaStore(), ident: 3), seed: UInt64 = 5
        var replica = try list(try SQLiteReplicaStore(path: path), ident: 2), writer = other
        let incoming = try insert(into: &writer, SeededRandom(seed: seed))
        let local = try insert(into: &replica, SeededRandom(seed: seed + 1))
        var progress = replica.progress
        progress.cursor.serverVersion += 1
        let tag = OriginTag(timestamp: 3, ident: 3)
        let download = Download(
            progress: progress,
            changesets: [DownloadedChangeset(cursor: progress.cursor, tag: tag, changeset: incoming)])
        let clock = ContinuousClock(), start = clock.now
        try replica.integrate(download)
        let integrated = clock.now
        // The same in memory: the local changes are applied first, as they were in the replica.
        let ownTag = OriginTag(timestamp: 3, ident: 2)
        var own = ChangesetArena(), arena = ChangesetArena(), copy = other.state
        let ownIndex = try own.decode(local, version: 2, tag: ownTag)
        _ = try copy.applyTransactions([ownIndex], of: &own) { _ in false }
        let met = try arena.decode(local, version: 2, tag: ownTag)
        let index = try arena.decode(incoming, version: 3, tag: tag)
        let begin = clock.now
        try arena.merge(local: [met], incoming: [index], strategy: .indexed)
        _ = try copy.applyTransactions([index], of: &arena) { _ in false }
        let end = clock.now
        try replica.store.close()
        return (integrated - start, end - begin)
    }

    /// A replica with a list of Ints that the server has, too.
    private func list<Store: ReplicaStore>(_ store: Store, ident: ClientFileID) throws -> Replica<Store> {
        var replica = try Replica(store)
        try replica.identify(as: SaltedFileID(ident: ident, salt: 1))
        try replica.write(at: 1) { transaction in
            try transaction.addClass("Doc", key: "_id", .int)
            try transaction.addColumn("items", .int, collection: .list, to: "Doc")
            let items = try transaction.create("Doc", key: 1).list("items")
            for number in 0..<1_000 { try items.append(.int(Int64(number))) }
        }
        var progress = replica.progress
        progress.cursor = DownloadCursor(serverVersion: 10, clientVersion: replica.version)
        progress.upload = UploadCursor(clientVersion: replica.version, serverVersion: 10)
        try replica.integrate(Download(progress: progress))
        return replica
    }

    private func insert(into replica: inout Replica<some ReplicaStore>, _ random: SeededRandom) throws -> [UInt8] {
        var random = random
        return try replica.write(at: 3) { transaction in
            guard let items = try transaction.object("Doc", key: 1)?.list("items") else { return }
            for number in 0..<instructions {
                try items.insert(.int(Int64(number)), at: random.below(try items.count + 1))
            }
        }.changeset
    }
}
