import AnabranchTesting
import Foundation
import Testing

/// `anabranch-lab torture`, `replica random` and `bench replica`.
@Suite(.serialized, .timeLimit(.minutes(30))) struct ReplicaCommandTests {
    /// 30 killed processes; 1,000: `anabranch-lab torture --clients 8 --cycles 500`.
    @Test("replicas that are killed beside their server end in one state, with all that they have committed, once")
    func torture() async throws {
        let answer = try await LabProcess.run(
            ["torture", "--serve", LabProcess.server, "--clients", "4", "--cycles", "15", "--seed", "1"])
        #expect(answer.status == 0, "\(answer)")
        let lines = answer.output.split(separator: "\n")
        #expect(lines.count == 3 && lines.last == "2 passed, 0 failed", "\(answer)")
        for (line, mode) in zip(lines, ["partition: ", "flexible: "]) {
            #expect(line.hasPrefix(mode) && line.hasSuffix(" stopped for a while, 4 equal states"), "\(line)")
            let numbers = line.matches(of: /\d+/).compactMap { Int($0.output) }
            try #require(numbers.count == 5, "\(line)")
            #expect(numbers[1] > 0 && numbers[2] > 0 && numbers[1] + numbers[2] >= 15 && numbers[3] > 0, "\(line)")
        }
    }

    /// 500: `anabranch-lab torture --store URL --nodes 3 --cycles 500`.
    @Test("servers that share a database, of which each is killed, lose nothing either")
    func tortureOfSeveralServers() async throws {
        let database = try TestPostgres(settings: [])
        defer { database.end() }
        let store = database.url(try database.makeDatabase())
        let answer = try await LabProcess.run(
            [
                "torture", "--serve", LabProcess.server, "--store", store, "--nodes", "2", "--clients", "3", "--cycles",
                "10",
            ])
        #expect(answer.status == 0 && answer.output.hasSuffix("2 passed, 0 failed\n"), "\(answer)")
    }

    @Test("a server that does not start makes it fail, and it says how to repeat that")
    func noServer() async throws {
        // The files of a run that fails stay.
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("torture-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let arguments = ["torture", "--serve", "/bin/false", "--clients", "1", "--seconds", "1", "--mode", "partition"]
        let answer = try await LabProcess(arguments, temporary: folder).end()
        #expect(answer.status == 1)
        #expect(answer.output.contains("what it left: \(folder.path)"), "\(answer)")
        #expect(answer.output.contains("repeat: anabranch-lab torture --clients 1 --seconds 1 --seed 1"), "\(answer)")
        #expect(answer.output.hasSuffix("0 passed, 1 failed\n"), "\(answer)")
    }

    @Test("a replica in a file is what the same one in memory is")
    func random() async throws {
        let answer = try await LabProcess.run(["replica", "random", "--ops", "2000", "--seed", "1"])
        #expect(answer.status == 0, "\(answer)")
        #expect(answer.output.hasSuffix("20 passed, 0 failed\n"), "\(answer)")
    }

    @Test("the memory of clients that rest is measured")
    func memory() async throws {
        let answer = try await LabProcess.run(
            ["bench", "replica-memory", "--serve", LabProcess.server, "--objects", "1000", "--repeats", "1"])
        #expect(answer.status == 0, "\(answer)")
        let names = answer.output.split(separator: "\n").map { $0.prefix { $0 != "," } }
        #expect(names == ["empty", "full", "download"].map { "{\"name\":\"\($0)\"" }, "\(answer)")
    }

    @Test("what applications wait for is measured")
    func bench() async throws {
        let answer = try await LabProcess.run(
            ["bench", "replica", "--objects", "1000", "--instructions", "500", "--repeats", "5"])
        #expect(answer.status == 0, "\(answer)")
        let names = answer.output.split(separator: "\n").map { $0.prefix { $0 != "," } }
        #expect(names == ["open", "write", "erase", "merge"].map { "{\"name\":\"\($0)\"" }, "\(answer)")
    }
}
