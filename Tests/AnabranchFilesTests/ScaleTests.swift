import AnabranchChunks
import AnabranchClient
import AnabranchSQLite
import Foundation
import Testing

@testable import AnabranchFiles

/// Spaces with many files, and names that change while contents are on their way. It prints its figures:
///
///     ANABRANCH_FILES=100000 ANABRANCH_MEBIBYTES=1024 scripts/check --filter ScaleTests
@Suite(.timeLimit(.minutes(30))) struct ScaleTests {
    private static func number(_ name: String, _ usual: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap(Int.init) ?? usual
    }

    private static func milliseconds(_ duration: Duration) -> Double {
        Double(duration.components.seconds) * 1_000 + Double(duration.components.attoseconds) / 1e15
    }

    /// Files of one chunk each, 100 in a folder.
    private static func makeFiles(_ count: Int, in store: SyncedStore) async throws {
        let folders = (0..<(count + 99) / 100).map { FolderRecord(name: "folder \($0)") }
        try await store.write { tx in for folder in folders { try tx.insert(folder) } }
        for first in stride(from: 0, to: count, by: 5_000) {
            try await store.write { tx in
                for number in first..<min(count, first + 5_000) {
                    var file = FileRecord(name: "file \(number).txt", parent: folders[number / 100].id)
                    let chunk = ChunkHash(of: "\(number)".utf8)
                    file.setContent(try #require(Manifest(size: 9, chunks: [chunk])), modified: Date())
                    try tx.insert(file)
                }
            }
        }
    }

    @Test func namesAreQuickBesideContents() async throws {
        let count = Self.number("ANABRANCH_FILES", 500), mebibytes = Self.number("ANABRANCH_MEBIBYTES", 8)
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("files-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let history = try SQLiteStore(directory: folder.appendingPathComponent("data").path)
        try await FilesRig.run(quotaBytes: .max, in: folder, history: history) { rig in
            let one = try await rig.device("one"), clock = ContinuousClock()
            try await one.connect()
            try await Self.makeFiles(count, in: one.store)
            try await one.synchronize()
            let two = try await rig.device("two")
            var start = clock.now
            try await two.connect()
            let listed = try await two.space.list(SpacePath("/folder 0"))
            let firstSync = clock.now - start
            #expect(listed.count == min(100, count))
            #expect(try two.space.everything().count == count + (count + 99) / 100)
            // A large content goes up while a file is renamed again and again.
            let source = folder.appendingPathComponent("large"), big = try await one.space.create(SpacePath("/large"))
            _ = FileManager.default.createFile(atPath: source.path, contents: nil)
            let handle = try FileHandle(forWritingTo: source)
            for number in 0..<mebibytes {
                try handle.write(contentsOf: Data(repeating: UInt8(truncatingIfNeeded: number), count: 1 << 20))
            }
            try handle.close()
            try await big.write(contentsOf: source, moving: true)
            var path = try SpacePath("/folder 0").appending(listed[0].displayName), times: [Double] = []
            var changes = two.space.changes().makeAsyncIterator()
            for turn in 0..<50 where turn < 5 || one.space.status.pendingFiles > 0 {
                let target = try SpacePath("/folder 0/renamed \(turn)")
                start = clock.now
                try await one.space.move(path, to: target)
                while let some = await changes.next(), !some.contains(where: { $0.path == target }) {}
                times.append(Self.milliseconds(clock.now - start))
                path = target
            }
            try await one.synchronize()
            times.sort()
            print(
                """
                {"files":\(count),"first_sync_ms":\(Int(Self.milliseconds(firstSync))),"mebibytes":\(mebibytes),\
                "renames":\(times.count),"median_ms":\(times[times.count / 2]),"max_ms":\(times.last ?? 0)}
                """)
            #expect(try two.space.info(path).key == listed[0].key)
            for device in [one, two] { try await device.close() }
        }
        try history.close()
    }
}
