import AnabranchClient
import AnabranchCore
import ArgumentParser
import CommandSupport
import Foundation

struct BenchReplicaMemoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replica-memory",
        abstract: "Measure the memory of clients that rest: with many objects, and without.",
        discussion: """
            Starts `anabranch serve --dev`, and has a process write --objects objects of five fields and synchronize \
            them. Then processes are started that open a replica, connect, wait until everything is synchronized, and \
            rest: one has an empty replica, one opens that with the objects, one downloads them. Prints a JSON line \
            for each, in MiB: `resident` is VmRSS, `anonymous` what of it is not a file's, `above` what is above the \
            empty one. Linux.

            EXAMPLES
              anabranch-lab bench replica-memory --objects 100000
            """)

    @OptionGroup var program: ServedProgram

    @Option(help: "How many objects the full replica has.")
    var objects = 100_000

    @Option(help: "How often each is started; the median counts.")
    var repeats = 5

    func validate() throws {
        guard objects > 0, repeats > 0 else { throw ValidationError("--objects and --repeats must be 1 or more.") }
    }

    func run() async throws {
        BenchEnvironment.show()
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("anabranch-bench-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let server = TortureServer(try program.path(), in: folder)
        defer { server.kill() }
        let url = try await server.start()
        _ = try await client("empty", of: "none", in: folder, url)
        _ = try await client("full", of: "all", in: folder, url, writes: objects)
        var empty: Int?
        for (name, partition) in [("empty", "none"), ("full", "all"), ("download", "all")] {
            var found: [(resident: Int, anonymous: Int)] = []
            for number in 0..<repeats {
                let file = name == "download" ? "\(name)-\(number)" : name
                found.append(try await client(file, of: partition, in: folder, url))
            }
            let resident = found.map(\.resident).sorted()[repeats / 2]
            let anonymous = found.map(\.anonymous).sorted()[repeats / 2]
            empty = empty ?? resident
            print(
                String(
                    format: #"{"name":"%@","resident_mib":%.1f,"anonymous_mib":%.1f,"above_mib":%.1f}"#, name,
                    Double(resident) / 1024, Double(anonymous) / 1024, Double(resident - (empty ?? 0)) / 1024))
        }
    }

    /// Starts a process with a replica.
    /// - Returns: its memory when it rests, in KiB.
    private func client(
        _ name: String, of partition: String, in folder: URL, _ url: String, writes count: Int = 0
    ) async throws -> (resident: Int, anonymous: Int) {
        let path = folder.appendingPathComponent(name).path
        let process = TortureProcess(
            [
                "bench", "replica-memory-client", "--url", "\(url)/realm-sync?baas_at=", "--data", path, "--partition",
                "\"\(partition)\"", "--objects", "\(count)",
            ], errors: path + ".errors")
        let lines = await (try process.start()).all()
        let numbers = lines.last?.split(separator: " ").compactMap { Int($0) } ?? []
        guard numbers.count == 2 else { throw LoadError("the client has failed: \(process.errorOutput)") }
        return (numbers[0], numbers[1])
    }
}

/// The process of one replica of `bench replica-memory`.
struct ReplicaMemoryClientCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "replica-memory-client", shouldDisplay: false)

    @Option var url: String
    @Option var data: String
    @Option var partition: String
    /// The number of objects that it writes first.
    @Option var objects: Int

    func run() async throws {
        let replica = try SyncedReplica(path: data), client = SyncClient(SyncConfiguration(FixedRoute(url)))
        for first in stride(from: 0, to: objects, by: 10_000) {
            let numbers = first..<min(first + 10_000, objects)
            try await replica.write { try BenchNotes.write(numbers, to: $0) }
        }
        try await client.add(replica, partition: partition)
        try await replica.waitForUpload()
        try await replica.waitForDownload()
        // The memory of the last answer is given back once nothing goes on any more.
        try await Task.sleep(for: .seconds(1))
        let memory = try ProcessSnapshot.ofOwnProcess()
        print(memory.residentBytes >> 10, memory.anonymousBytes >> 10)
        await client.stop()
        try await replica.close()
    }
}

/// Objects of five fields, each linked to the one before.
enum BenchNotes {
    static func write(_ numbers: Range<Int>, to transaction: WriteTransaction) throws {
        try transaction.addClass("Note", key: "_id", .int)
        try transaction.addColumn("count", .int, to: "Note")
        try transaction.addColumn("title", .string, to: "Note")
        try transaction.addColumn("text", .string, isNullable: true, to: "Note")
        try transaction.addColumn("size", .double, to: "Note")
        try transaction.addLink("next", to: "Note", of: "Note")
        for number in numbers {
            let note = try transaction.create(
                "Note", key: .int(Int64(number)), ["title": .string(Array("note \(number)".utf8))])
            try note.set("size", to: .double(Double(number)))
            guard number > 0, let other = try transaction.object("Note", key: .int(Int64(number - 1))) else { continue }
            try note.set("next", to: other.link)
        }
    }
}
