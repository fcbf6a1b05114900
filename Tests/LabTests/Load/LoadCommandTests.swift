import Foundation
import Testing

@testable import anabranch_lab

/// The built command brings small loads to the built server, each in a process of its own.
@Suite(.serialized) struct LoadCommandTests {
    /// The report that every load prints.
    private struct Line: Decodable {
        typealias Numbers = [String: Double]

        struct Server: Decodable {
            var rssMib: Numbers
            var rssMibSeries: [Double]
            var cpuUserSeconds: Double
            var cpuSystemSeconds: Double
            var writtenMib: Double
            var descriptors: Numbers
            var walMib: Numbers?
            var databaseMib: Numbers?
            var logMib: Numbers?
            var gauges: [String: Numbers]?
        }

        struct Phases: Decodable {
            var alone: Numbers
            var during: Numbers
            var after: Numbers
            var failures: Int
        }

        struct Bystander: Decodable {
            var files: Int
            var deliveryMs: Phases
            var handshakeMs: Phases
        }

        var load: String
        var options: Numbers
        var seconds: Double
        var operations: Int
        var operation: String
        var refusal: String?
        var latencyMs: [String: Numbers]
        var bytes: [String: Int]
        var counts: Numbers
        var server: Server?
        var bystander: Bystander?
    }

    private static func run(_ arguments: [String]) async throws -> LabProcess.Answer {
        try await LabProcess.run(["load"] + arguments)
    }

    private func line(of answer: LabProcess.Answer) throws -> Line {
        #expect(answer.output.last == "\n" && answer.output.count { $0 == "\n" } == 1, "\(answer.output)")
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(Line.self, from: Data(answer.output.utf8))
    }

    private static let short = ["--alone-seconds", "0.2", "--bystanders", "1", "--threads", "1"]

    private struct Expectation: Sendable {
        var load: String
        var arguments: [String]
        var operations: PartialRangeFrom<Int>
        var latencies: Set<String>

        init(_ load: String, _ arguments: [String], _ operations: Int, _ latencies: Set<String>) {
            self.load = load
            self.arguments = arguments
            self.operations = operations...
            self.latencies = latencies
        }
    }

    private static let loads = [
        Expectation(
            "idle", ["--sessions", "6", "--connections", "2", "--files", "2", "--seconds", "0.1"], 6,
            ["handshake", "session"]),
        Expectation("idle", ["--sessions", "3", "--name-bytes", "500", "--only-bind"], 3, ["handshake", "session"]),
        Expectation("fanout", ["--readers", "3", "--rounds", "4"], 12, ["acknowledged", "last_reader", "reader"]),
        Expectation(
            "writers", ["--clients", "4", "--files", "2", "--seconds", "0.3"], 4,
            ["acknowledged", "last_reader", "reader"]),
        Expectation("writers", ["--clients", "2", "--files", "5", "--seconds", "0.3"], 4, ["acknowledged"]),
        Expectation("visits", ["--files", "5", "--clients", "2"], 5, ["caught_up"]),
        Expectation("visits", ["--files", "2", "--entries", "1500", "--visits", "3"], 6, ["caught_up"]),
        Expectation(
            "first-sync", ["--transactions", "300", "--objects", "20", "--clients", "2"], 2,
            ["first_byte", "caught_up"]),
        Expectation(
            "slow", ["--readers", "2", "--megabytes", "0.5", "--seconds", "0.3", "--ping-seconds", "0.1"], 2, []),
        Expectation(
            "slow", ["--readers", "2", "--megabytes", "0.5", "--seconds", "1.2", "--trickle", "4096"], 2, []),
        Expectation("slow", ["--readers", "2", "--unfinished", "1", "--seconds", "0.3"], 2, []),
        Expectation("slow", ["--readers", "2", "--unfinished", "1", "--identified", "--seconds", "0.3"], 2, []),
        Expectation("storm", ["--clients", "3", "--megabytes", "0.6"], 3, ["caught_up", "handshake"]),
        Expectation(
            "storm", ["--clients", "2", "--megabytes", "0.1", "--seconds", "0.3", "--writers", "1"], 2,
            ["caught_up", "handshake"]),
        Expectation(
            "simperium",
            [
                "--clients", "4", "--channels", "2", "--writers", "3", "--seconds", "0.4", "--readers", "5", "--rounds",
                "4",
                "--entities", "2500",
            ], 4,
            [
                "change", "realm_change", "last_reader", "realm_last_reader", "first_page", "far_page", "page",
            ]),
        Expectation("flood cycles", ["--cycles", "10", "--clients", "2"], 10, ["handshake"]),
        Expectation("flood pings", ["--clients", "2", "--seconds", "0.2"], 512, []),
        Expectation("flood marks", ["--clients", "2", "--seconds", "0.2"], 512, []),
        Expectation("flood progress", ["--clients", "2", "--seconds", "0.2"], 512, []),
        Expectation("flood passwords", ["--clients", "2", "--seconds", "0.2"], 2, ["answer"]),
        Expectation("attack empty", ["--count", "10"], 0, ["answered"]),
        Expectation("attack merge", ["--count", "10"], 2, ["answered", "prepared"]),
        Expectation("attack merge nan", ["--shape", "nan", "--count", "10"], 2, ["answered", "prepared"]),
        Expectation("attack merge lists", ["--shape", "lists", "--count", "10"], 2, ["answered", "prepared"]),
        Expectation(
            "attack object", ["--count", "2", "--megabytes", "0.1", "--increments", "3"], 5, ["answered", "prepared"]),
        Expectation("attack name", ["--megabytes", "0.01"], 0, ["answered"]),
    ]

    @Test(arguments: loads.indices) func aLoadIsBroughtAndMeasured(_ number: Int) async throws {
        let expected = Self.loads[number]
        let answer = try await Self.run(
            expected.load.split(separator: " ").prefix(2).map(String.init) + expected.arguments + Self.short
                + ["--serve", try LabProcess.server])
        #expect(answer.status == 0, "anabranch-lab load \(expected.load): \(answer.complaint)")
        let line = try line(of: answer)
        #expect(line.load == expected.load)
        #expect(expected.operations.contains(line.operations))
        #expect(Set(line.latencyMs.keys) == expected.latencies)
        for (name, latency) in line.latencyMs {
            #expect(try #require(latency["count"]) > 0, "\(name)")
            #expect(Set(latency.keys) == ["count", "max", "p50", "p99"], "\(name)")
        }
        #expect(expected.load == "flood passwords" || line.bytes["sent"] ?? 0 > 0)

        let bystander = try #require(line.bystander)
        #expect(bystander.files == 1)
        for phases in [bystander.deliveryMs, bystander.handshakeMs] {
            #expect(phases.failures == 0)
            #expect(try #require(phases.alone["count"]) > 0)
            #expect(try #require(phases.after["count"]) > 0)
        }
        let server = try #require(line.server)
        for level in [server.rssMib, server.descriptors, server.walMib, server.databaseMib, server.logMib] {
            let level = try #require(level)
            #expect(Set(level.keys) == ["after", "before", "peak"])
            #expect(level["peak"] ?? 0 >= level["before"] ?? 1)
        }
        let gauges = try #require(server.gauges)
        #expect(gauges.count == 3)
        #expect(gauges.values.allSatisfy { $0["before"] ?? 0 >= 2 && $0["after"] ?? 0 >= 2 }, "\(gauges)")
        #expect(line.counts["exit_status"] == 0)
    }

    /// Once with 10,000 and 100: `Benchmarks/README.md`.
    @Test func idleSessionsAndSlowReadersCostLittleMemory() async throws {
        let server = ["--serve", try LabProcess.server]
        let idle = try await Self.run(
            ["idle", "--sessions", "500", "--connections", "50", "--seconds", "0.5"] + Self.short + server)
        #expect(idle.status == 0, "\(idle.complaint)")
        let perSession = try #require(try line(of: idle).counts["rss_kib_per_session"])
        #expect(perSession < 64, "\(perSession) KiB a session")

        // What each asks for in its four sessions, and does not read, has 32 MiB.
        let slow = try await Self.run(
            ["slow", "--readers", "5", "--seconds", "2", "--ping-seconds", "0.5"] + Self.short + server)
        #expect(slow.status == 0, "\(slow.complaint)")
        let line = try line(of: slow)
        let perReader = try #require(line.counts["rss_mib_per_reader"])
        #expect(perReader < 16, "\(perReader) MiB a reader")
        #expect(line.counts["closed"] == 0)
        #expect(try #require(line.bystander).deliveryMs.failures == 0)
    }

    @Test func aLoadCanHaveTheServerForItself() async throws {
        let answer = try await Self.run(
            Self.fanout + ["--serve", try LabProcess.server, "--bystanders", "0", "--threads", "1"])
        #expect(answer.status == 0, "\(answer.complaint)")
        let line = try line(of: answer)
        #expect(line.operations > 0 && line.bystander == nil)
    }

    /// SIGTERM comes when the server has read an upload that takes seconds to merge.
    @Test func aServerCanBeEndedInTheMiddleOfAMerge() async throws {
        let answer = try await Self.run(
            ["attack", "merge", "--shape", "nan", "--count", "10000", "--sigterm-after", "0"] + Self.short
                + ["--serve", try LabProcess.server])
        #expect(answer.status == 0, "\(answer.complaint)")
        let line = try line(of: answer)
        // The preparation was answered; the merge was dropped, and its client told to try again.
        #expect(line.operations == 1)
        #expect(line.refusal == "the server ended the session: error 201, session error")
        #expect(line.counts["exit_status"] == 0)
    }

    @Test func aServerThatEndsByItselfIsAnError() async throws {
        try await withScript("exec \"$SERVER\" \"$@\"") { script async throws in
            let lab = try LabProcess(
                ["load", "attack", "merge", "--shape", "nan", "--count", "10000"] + Self.short
                    + ["--serve", script.path])
            try lab.waitForComplaint("the load begins")
            try script.processes.forEach { kill($0, SIGKILL) }
            let answer = try await lab.end()
            #expect(answer.status == 1)
            #expect(answer.output.isEmpty)
            #expect(answer.complaint.contains("the server has ended"), "\(answer.complaint)")
        }
    }

    @Test func theFloorNeedsNoServer() async throws {
        let answer = try await Self.run(["floor", "--readers", "3", "--rounds", "4", "--threads", "1", "--answer", "5"])
        #expect(answer.status == 0, "\(answer.complaint)")
        let line = try line(of: answer)
        #expect(line.operations == 12)
        #expect(line.latencyMs["last_reader"]?["count"] == 4)
        #expect(line.latencyMs["reader"]?["count"] == 12)
        #expect(line.bytes == ["received": 12 * 300, "sent": 12 * 5])
        #expect(line.counts["cpu_us_per_operation"] ?? 0 >= 0)
        #expect(line.bystander == nil)
        #expect(line.server == nil)
    }

    // MARK: Running servers

    private static let fanout = ["fanout", "--readers", "2", "--rounds", "2"] + short

    @Test func usersOfAnAppLogIn() async throws {
        let server = try await ServerUnderLoad.start(try LabProcess.server)
        defer { server.kill() }
        let answer = try await Self.run(
            Self.fanout + ["--url", server.url, "--app", "notes", "--server-pid", "\(server.place.process)"])
        #expect(answer.status == 0, "\(answer.complaint)")
        let figures = try #require(try line(of: answer).server)
        #expect(try #require(figures.rssMib["peak"]) > 0)
        #expect(figures.walMib == nil, "the data directory is not known")

        let wrong = try await Self.run(
            Self.fanout + [
                "--url", server.url, "--app", "notes", "--email", "a@example.com", "--password", "not the password",
            ])
        #expect(wrong.status == 1)
        #expect(wrong.complaint.contains("nobody can log in to app 'notes': invalid username/password"))
    }

    /// Both are one here.
    @Test func clientsComeToSeveralServers() async throws {
        let server = try await ServerUnderLoad.start(try LabProcess.server)
        defer { server.kill() }
        let arguments = ["writers", "--clients", "4", "--files", "2", "--seconds", "0.2", "--pause", "1"] + Self.short
        let answer = try await Self.run(arguments + ["--url", server.url, "--also", server.url])
        #expect(answer.status == 0, "\(answer.complaint)")
        let line = try line(of: answer)
        #expect(line.counts["lost_writers"] == 0)
        for number in 1...2 {
            let latencies = try #require(line.latencyMs["acknowledged_server_\(number)"])
            #expect(try #require(latencies["count"]) > 0)
        }
    }

    @Test func aServerThatLetsNobodyInIsAnErrorThatSaysWhatHelps() async throws {
        let server = try await ServerUnderLoad.start(try LabProcess.server, ["--rules", "everybody"])
        defer { server.kill() }
        for arguments in [[], ["--token", "no-token"]] {
            let answer = try await Self.run(Self.fanout + ["--url", server.url] + arguments)
            #expect(answer.status == 1)
            #expect(answer.complaint.contains("pass --app"), "\(answer.complaint)")
            #expect(answer.output.isEmpty)
        }
    }

    @Test(arguments: [
        (["--url", "ws://127.0.0.1:1"], 1, "127.0.0.1:1"), (["--serve", "no/such/program"], 1, "no/such/program"),
        (["--url", "http://127.0.0.1:1"], 1, "does not begin with ws://"), ([], 64, "--url or --serve"),
        (["--url", "ws://a", "--serve", "b"], 64, "--url or --serve"),
        (["--url", "ws://a", "--email", "e"], 64, "--password"), (["--serve", "b", "--also", "ws://a"], 64, "--also"),
        (["--url", "ws://127.0.0.1:1", "--server-pid", "0"], 1, "there is no process 0"),
    ])
    func whatCannotBeDoneIsSaid(_ arguments: [String], _ status: Int32, _ words: String) async throws {
        let answer = try await Self.run(Self.fanout + arguments)
        #expect(answer.status == status)
        #expect(answer.complaint.contains(words), "\(answer.complaint)")
        #expect(answer.output.isEmpty)
    }
}
