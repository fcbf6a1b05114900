import AnabranchCore
import AnabranchTesting
import Foundation
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// A bit of a log row or a sealed segment that turns into the other one is found, by verification and by reading; the
/// file is refused then, and the others are served (`Spec/Durability.md`, section 4).
@Suite struct FlippedBitTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let count = environment["ANABRANCH_FLIPS"].flatMap { Int($0) } ?? 500
    private static let firstSeed = environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1
    private static let paths = ["/a", "/b", "/c"]

    /// A store with three files: one has its log in rows, one in segments, one in both.
    private struct Fixture {
        let folder: TemporaryDirectory
        let content: Data
        let rows: [Row]
        let downloads: [[Download]]
        /// Where the rows of the log, and the segments, are in the database.
        let places: [Range<Int>]

        init() throws {
            folder = try TemporaryDirectory()
            let store = try SQLiteStore(oneShardIn: folder.path)
            var downloads: [[Download]] = []
            for (path, sealedEntries) in zip(FlippedBitTests.paths, [0, 8, 16]) {
                let file = try SyncedFile.open(path, in: store)
                let ident = try file.allocateIdent().ident
                _ = try file.allocateIdent()
                for number in 1...24 as ClosedRange<UInt64> {
                    let changeset = ChangesetWriter.setting(Int64(number % 5), to: Int64(number))
                    try file.integrate(Upload([changeset], from: ClientVersion(number)), from: ident)
                }
                if sealedEntries > 0 {
                    try file.seal(SealingPolicy(entriesMax: sealedEntries, bytesMax: .max, restMin: 8))
                }
                downloads.append(try FlippedBitTests.downloads(of: file))
            }
            try store.close()
            self.downloads = downloads
            let path = folder.path + "/shard-00.sqlite"
            content = try Data(contentsOf: URL(fileURLWithPath: path))
            (rows, places) = try FlippedBitTests.read(path) { [content] db in
                (try FlippedBitTests.rows(in: db), try FlippedBitTests.places(in: db, content))
            }
        }
    }

    @Test func everyFlippedBitOfALogIsFound() async throws {
        let fixture = try Fixture()
        let copy = try TemporaryDirectory(copyingManifestOf: fixture.folder.path)
        var touched = 0, served = 0, refused = 0
        for number in 0..<Self.count {
            await Task.yield()  // all tests share a few threads
            let seed = Self.firstSeed + UInt64(number)
            var random = SeededRandom(scrambling: seed)
            let place = random.pick(fixture.places).randomElement(using: &random) ?? 0
            var content = fixture.content
            content[place] ^= 1 << UInt8(random.below(8))
            DataDirectory.remove(shard: 0, in: copy.path)
            try content.write(to: URL(fileURLWithPath: copy.path + "/shard-00.sqlite"))
            let repetition: Comment = """
                seed \(seed), byte \(place) of \(content.count); repeat with
                ANABRANCH_SEED=\(seed) ANABRANCH_FLIPS=1 swift test --filter FlippedBitTests
                """
            let rows = try? Self.read(copy.path + "/shard-00.sqlite", Self.rows)
            let isTouched = rows != fixture.rows, damaged = Self.damagedFiles(in: copy.path)
            if isTouched { touched += 1 }
            #expect(!isTouched || damaged != [], repetition)
            // Every tenth, since a server's opening is the most of it.
            guard number % 10 == 0 || Self.count == 1 else { continue }
            guard let store = try? SQLiteStore(directory: copy.path) else {
                refused += 1
                continue
            }
            for (index, path) in Self.paths.enumerated() {
                do {
                    let found = try Self.downloads(of: try SyncedFile.open(path, in: store))
                    #expect(found == fixture.downloads[index], repetition)
                    served += 1
                } catch let error as HistoryError {
                    #expect(error.isStoreFailure, repetition)
                    #expect(damaged?.contains(path) != false, "\(path) is refused, and is not damaged: \(error)")
                    refused += 1
                }
            }
            try? store.close()
        }
        guard Self.count > 100 else { return }
        #expect(touched * 2 > Self.count && served > refused && refused > 0, "\(touched) \(served) \(refused)")
    }

    /// The downloads of a client that has nothing.
    private static func downloads(of file: SyncedFile) throws -> [Download] {
        var downloads: [Download] = [], cursor = DownloadCursor()
        repeat {
            downloads.append(try file.downloads(for: 3).download(after: cursor, byteBudget: 200))
            cursor = downloads.last?.progress.cursor ?? cursor
        } while cursor.serverVersion < file.version
        return downloads
    }

    /// The files that verification finds damaged; nil if it finds that of the whole database.
    private static func damagedFiles(in directory: String) -> [String]? {
        do {
            let verification = try StoreVerification(directory: directory)
            guard try verification.checkDatabase() == [] else { return nil }
            var damaged: [String] = []
            try verification.checkFiles { file in
                if file.damages != [] { damaged += paths.filter { VirtualPath($0) == file.path } }
            }
            return damaged
        } catch {
            return nil
        }
    }

    private static func read<Value>(_ path: String, _ body: (Database) throws -> Value) throws -> Value {
        var configuration = Configuration()
        configuration.readonly = true
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        defer { try? queue.close() }
        return try queue.unsafeRead(body)
    }

    /// Without what only explains merges, for which there is no checksum. A blob that has become a text has the same
    /// bytes, and is read as before.
    private static func rows(in db: Database) throws -> [Row] {
        let numbers = "file, version, salt, origin, client_version, timestamp, cumulative_size"
        let blobs = ["checksum", "section", "changeset"].map { "CAST(\($0) AS BLOB)" }.joined(separator: ", ")
        let entries = "SELECT \(numbers), \(blobs) FROM log_entry NOT INDEXED ORDER BY rowid"
        let segments = "SELECT file, last, CAST(block AS BLOB) FROM log_segment NOT INDEXED ORDER BY rowid"
        return try Row.fetchAll(db, sql: entries) + Row.fetchAll(db, sql: segments)
    }

    /// The contents of the pages that have them.
    private static func places(in db: Database, _ content: Data) throws -> [Range<Int>] {
        let pageBytes = 4096
        let pages = try Row.fetchAll(
            db, sql: "SELECT pageno, pagetype FROM dbstat WHERE name IN ('log_entry', 'log_segment')")
        return pages.compactMap { page in
            let start = (page["pageno"] as Int - 1) * pageBytes
            switch page["pagetype"] as String {
            case "overflow": return start + 4..<start + pageBytes
            // Where its cells begin stands in the head of the page.
            case "leaf": return start + Int(content[start + 5]) << 8 + Int(content[start + 6])..<start + pageBytes
            default: return nil
            }
        }
    }
}

extension DataDirectory {
    fileprivate static func remove(shard number: Int, in path: String) {
        for suffix in suffixes + ["-shm"] { unlink(path + "/" + shardName(number) + suffix) }
    }
}
