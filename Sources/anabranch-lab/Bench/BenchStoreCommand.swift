import AnabranchClient
import AnabranchTesting
import ArgumentParser
import Foundation
import GRDB
import Synchronization

/// An object of five fields, as a store and as GRDB alone have it.
private struct Note: SyncedObject, FetchableRecord, PersistableRecord {
    var id: Int
    var title = ""
    var count = 0
    var size = 0.0
    var text: String?

    static var indexed: [PartialKeyPath<Note>] { [\.title] }

    init(_ number: Int) { (id, title, count, size) = (number, "note \(number)", number % 1000, Double(number)) }
}

/// An object with a list, in a class with an indexed field.
private struct Album: SyncedObject {
    var id: Int
    var title = ""
    var songs: [Int] = []

    static var indexed: [PartialKeyPath<Album>] { [\.title] }
}

struct BenchStoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: "Measure the objects of applications beside GRDB alone: the same rows, without synchronization.",
        discussion: """
            Prints a JSON line each, medians in milliseconds, with what GRDB takes beside it:
              insert    --objects objects of five fields, one of them indexed, in transactions of 10,000
              field     one field of all objects is read
              objects   all objects are read
              query     the object with a value of an indexed field is read
              notice    from the end of a commit of one object to the change at whoever observes that object
              list      a transaction that adds an element to a list of --objects elements
              offline   a transaction that changes one object while --objects / 5 others wait to be uploaded; beside \
            it the same while few wait
            "insert" also says how many bytes of the disk an object takes.

            EXAMPLES
              anabranch-lab bench store --objects 100000
            """)

    @Option(help: "How many objects there are.")
    var objects = 100_000

    @Option(help: "How often each is measured.")
    var repeats = 5

    func validate() throws {
        guard objects > 1, repeats > 0 else { throw ValidationError("There must be two objects and one measurement.") }
    }

    func run() async throws {
        BenchEnvironment.show()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "anabranch-bench-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

        var (ours, theirs): ([Double], [Double]) = ([], [])
        for number in 0..<repeats {
            ours.append(try await insert(into: path("\(number).store")))
            theirs.append(try insertWithGRDB(into: path("\(number).sqlite")))
        }
        report("insert", ours, theirs)
        for name in ["0.store", "0.sqlite"] {
            let bytes = try FileManager.default.attributesOfItem(atPath: path(name))[.size] as? Int ?? 0
            print(String(format: #"{"name":"bytes","file":"%@","object":%ld}"#, name, bytes / objects))
        }
        try await read(path("0.store"), path("0.sqlite"))
        try await observe(path("0.store"))
        try await growList(path("list.store"))
        try await growLog(path("0.store"))
    }

    private func report(_ name: String, _ ours: [Double], _ theirs: [Double] = []) {
        func median(_ times: [Double]) -> Double { times.sorted()[times.count / 2] }
        var line = String(format: #"{"name":"%@","objects":%ld,"ms":%.3f"#, name, objects, median(ours))
        if !theirs.isEmpty {
            let factor = median(ours) / median(theirs)
            line += String(format: #","grdb_ms":%.3f,"times":%.2f"#, median(theirs), factor)
        }
        print(line + "}")
    }

    private func milliseconds(_ body: () async throws -> Void) async throws -> Double {
        let clock = ContinuousClock(), start = clock.now
        try await body()
        return (clock.now - start).inMilliseconds
    }

    // MARK: Writing

    private var batches: [Range<Int>] {
        stride(from: 0, to: objects, by: 10_000).map { $0..<min($0 + 10_000, objects) }
    }

    private func insert(into path: String) async throws -> Double {
        let store = try await SyncedStore(path, Note.self)
        let time = try await milliseconds {
            for batch in batches {
                try await store.write { tx in for number in batch { try tx.insert(Note(number)) } }
            }
        }
        try await store.close()
        return time
    }

    private func insertWithGRDB(into path: String) throws -> Double {
        let pool = try DatabasePool(path: path)
        try pool.write { db in
            try db.create(table: "note") { table in
                table.primaryKey("id", .integer)
                table.column("title", .text).notNull().indexed()
                table.column("count", .integer).notNull()
                table.column("size", .double).notNull()
                table.column("text", .text)
            }
        }
        let clock = ContinuousClock(), start = clock.now
        for batch in batches {
            try pool.write { db in for number in batch { try Note(number).insert(db) } }
        }
        return (clock.now - start).inMilliseconds
    }

    // MARK: Reading

    private func read(_ path: String, _ other: String) async throws {
        let store = try await SyncedStore(path, Note.self), pool = try DatabasePool(path: other)
        var random = SeededRandom(seed: 1)
        var (field, all, query): (Times, Times, Times) = (Times(), Times(), Times())
        for _ in 0..<repeats {
            field.ours.append(
                try await milliseconds { try check(try store.read { try $0.values(of: \Note.count) }.count) })
            field.theirs.append(
                try await milliseconds {
                    try check(try pool.read { try Note.select(Column("count"), as: Int.self).fetchAll($0) }.count)
                })
            all.ours.append(try await milliseconds { try check(try store.read { try $0.all(Note.self) }.count) })
            all.theirs.append(try await milliseconds { try check(try pool.read { try Note.fetchAll($0) }.count) })
        }
        for _ in 0..<repeats * 40 {
            let title = "note \(random.below(objects))"
            query.ours.append(
                try await milliseconds {
                    try check(try store.read { try $0.objects(Note.where { $0.title == title }).count }, 1)
                })
            query.theirs.append(
                try await milliseconds {
                    try check(try pool.read { try Note.filter(Column("title") == title).fetchAll($0) }.count, 1)
                })
        }
        report("field", field.ours, field.theirs)
        report("objects", all.ours, all.theirs)
        report("query", query.ours, query.theirs)
        try await store.close()
    }

    private struct Times {
        var ours: [Double] = []
        var theirs: [Double] = []
    }

    private func check(_ count: Int, _ expected: Int? = nil) throws {
        guard count == expected ?? objects else { throw ValidationError("There are \(count) objects.") }
    }

    // MARK: Observing

    private func observe(_ path: String) async throws {
        let store = try await SyncedStore(path, Note.self), id = objects / 2, clock = ContinuousClock()
        var changes = try store.changes(of: Note.self, id).makeAsyncIterator()
        _ = try await changes.next()
        var times: [Double] = []
        for number in 0..<repeats * 40 {
            try await store.write { tx in try tx.edit(Note.self, id) { $0.count = 10_000 + number } }
            let committed = clock.now
            guard try await changes.next()?.new?.count == 10_000 + number else {
                throw ValidationError("The change was not told.")
            }
            times.append((clock.now - committed).inMilliseconds)
        }
        report("notice", times)
        try await store.close()
    }

    // MARK: Growing

    private func growList(_ path: String) async throws {
        let store = try await SyncedStore(path, Album.self), songs = Array(0..<objects)
        try await store.write { try $0.insert(Album(id: 1, title: "long", songs: songs)) }
        var times: [Double] = []
        for number in 0..<repeats * 40 {
            times.append(
                try await milliseconds {
                    try await store.write { tx in try tx.list(\Album.songs, of: 1).append(number) }
                })
        }
        report("list", times)
        try await store.close()
    }

    private func growLog(_ path: String) async throws {
        let store = try await SyncedStore(path, Note.self)
        var times: [Double] = []
        for number in 0..<objects / 5 {
            times.append(
                try await milliseconds {
                    try await store.write { tx in try tx.edit(Note.self, number) { $0.count += 1 } }
                })
        }
        let count = min(1000, times.count)
        print(#"{"name":"offline","waiting":\#(times.count)"#, terminator: "")
        for (name, part) in [("first_ms", times.prefix(count)), ("last_ms", times.suffix(count))] {
            print(String(format: #","%@":%.3f"#, name, part.sorted()[count / 2]), terminator: "")
        }
        print("}")
        try await store.close()
    }
}
