import AnabranchTestClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix

/// Attacks that need no login, or the operator's token alone.
extension Attack {
    static let doorAttacks = [unreadAnswers, logins, heldAdmin, badLines, largeImport]

    private static let unreadAnswers = Attack(
        name: "unread-answers", summary: "10 connections go on to ask by HTTP, and never read an answer",
        counts: ["connections": 10, "seconds": 80], plan: Plan(memoryGrowthBound: 32)
    ) { run in
        let target = try run.target, request = "GET /api/client/v2.0/app/flexa/location HTTP/1.1\r\nHost: a\r\n\r\n"
        let requests = ByteBuffer(string: String(repeating: request, count: 200))
        let count = run.count("connections"), end = Duration.seconds(run.count("seconds"))
        try await run.measure {
            let start = ContinuousClock.now
            let channels = try await concurrentMap(0..<count, limit: count) { _ in
                try await ClientBootstrap(group: run.eventLoops).channelOption(.autoRead, value: false)
                    .connect(host: target.host, port: target.port).get()
            }
            let writers = channels.map { channel in
                Task {
                    var sent = 0
                    while channel.isActive, (try? await channel.writeAndFlush(requests)) != nil {
                        sent += requests.readableBytes
                    }
                    return sent
                }
            }
            while channels.contains(where: \.isActive), ContinuousClock.now - start < end {
                try await Task.sleep(for: .milliseconds(200))
            }
            // A socket that does not read learns of its end by writing.
            let closed = channels.count { !$0.isActive }
            run.report.figure("closed_after", (ContinuousClock.now - start) / .seconds(1), "s")
            for channel in channels { try? await channel.close() }
            var sent = 0
            for writer in writers { sent += await writer.value }
            run.report.figure("requests_sent", Double(sent) / 1e6, "MB")
            run.report.bound("closed", Double(closed), atLeast: Double(count))
        }
    }

    // MARK: Passwords

    private static let logins = Attack(
        name: "wrong-passwords", summary: "80 wrong passwords at a time, from 80 addresses; somebody has the right one",
        counts: ["addresses": 80, "seconds": 15], plan: Plan(server: AttackedServer(settings: "log-level: info"))
    ) { run in
        let requests = HTTPRequests(
            target: try run.target, app: AttackedApp.partitions.rawValue, eventLoops: run.eventLoops)
        let (email, password) = ("somebody@example.com", "the right password")
        try await requests.register(email: email, password: password)
        let count = run.count("addresses"), duration = Duration.seconds(run.count("seconds"))
        try await run.measure {
            let end = ContinuousClock.now + duration
            try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<count {
                    group.addTask {
                        let nobody = HTTPRequests.Credentials.password(
                            email: "nobody-\(number)@example.com", password: "not the password")
                        var tries = 0
                        while ContinuousClock.now < end {
                            _ = try? await requests.tryPassword(nobody, from: "127.0.1.\(number + 1)")
                            tries += 1
                            try await Task.sleep(for: .milliseconds(100))
                        }
                        return tries
                    }
                }
                var answers: [HTTPResponseStatus] = []
                let start = ContinuousClock.now
                while ContinuousClock.now < end {
                    answers.append(try await requests.tryPassword(.password(email: email, password: password)))
                    try await Task.sleep(for: .milliseconds(200))
                }
                let seconds = (ContinuousClock.now - start) / .seconds(1)
                let right = answers.count { $0 == .ok }
                run.report.figure("right_password_tried", Double(answers.count))
                run.report.figure("seconds_a_try", seconds / Double(max(1, answers.count)), "s")
                run.report.bound(
                    "right_password_let_in", 100 * Double(right) / Double(max(1, answers.count)), atLeast: 90, "%")
                run.report.figure("wrong_passwords", Double(try await group.reduce(0, +)))
            }
        }
    }

    // MARK: The operator

    private static let heldAdmin = Attack(
        name: "held-admin", summary: "64 connections to the admin interface that never say anything, again and again",
        counts: ["connections": 64, "seconds": 20]
    ) { run in
        let admin = try run.admin, count = run.count("connections")
        let duration = Duration.seconds(run.count("seconds"))
        try await run.measure {
            let end = ContinuousClock.now + duration
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<count {
                    group.addTask {
                        while ContinuousClock.now < end {
                            let channel = try? await ClientBootstrap(group: run.eventLoops)
                                .connect(host: admin.host, port: admin.port).get()
                            while channel?.isActive ?? false, ContinuousClock.now < end {
                                try await Task.sleep(for: .milliseconds(50))
                            }
                            try? await channel?.close()
                            try await Task.sleep(for: .milliseconds(10))
                        }
                    }
                }
                try await Task.sleep(for: .seconds(1))
                var tries = 0, successes = 0
                while ContinuousClock.now < end {
                    tries += 1
                    let answer = try? await HTTPRequests.exchange(
                        admin.head(.GET, "/ready"), Data(), with: admin.host, admin.port, on: run.eventLoops)
                    if answer?.status == .ok { successes += 1 }
                    try await Task.sleep(for: .milliseconds(500))
                }
                run.report.figure("ready_asked", Double(tries))
                run.report.bound("ready_answered", 100 * Double(successes) / Double(max(1, tries)), atLeast: 100, "%")
                try await group.waitForAll()
            }
        }
    }

    private static let badLines = Attack(
        name: "bad-lines", summary: "an import of 2 million lines that are none", counts: ["lines": 2_000_000]
    ) { run in
        let body = Data(repeating: UInt8(ascii: "x"), count: 2 * run.count("lines")).withNewlines()
        try await run.measure {
            let answer = try await run.importLines(body)
            run.report.bound("answer", Double(answer.body.count) / 1e6, atMost: 1, "MB")
        }
    }

    private static let largeImport = Attack(
        name: "large-import", summary: "14 MB of objects into the attacked app in one request",
        counts: ["lines": 120_000]
    ) { run in
        let name = AttackedObjects.className
        func property(_ name: String, _ type: String) -> String {
            #"{"name":"\#(name)","nullable":false,"type":"\#(type)"}"#
        }
        let text = String(repeating: "a", count: 90)
        let properties = [property("n", "int"), property("t", "string")].joined(separator: ",")
        var lines = #"{"anabranch_export":1}"# + "\n"
        lines +=
            #"{"class":"\#(name)","key":\#(property("_id", "int")),"kind":"top-level","properties":[\#(properties)]}"#
        for key in 0..<run.count("lines") { lines += "\n" + #"["\#(name)",{"int":"\#(key)"},{"t":"\#(text)"}]"# }
        let body = Data(lines.utf8)
        run.report.figure("import", Double(body.count) / 1e6, "MB")
        try await run.measure {
            let answer = try await run.importLines(body)
            run.report.figure(
                "answer", "\(answer.status.code) \(String(decoding: answer.body.prefix(100), as: UTF8.self))")
        }
    }
}

extension AttackRun {
    /// The admin interface as the operator reaches it.
    fileprivate var admin: ServerGauges.Admin {
        get throws {
            guard let admin = ServerGauges.Admin(dataDirectory: server.place.dataDirectory ?? "") else {
                throw LoadError("the server has announced no admin interface")
            }
            return admin
        }
    }

    /// Has the operator import lines into the attacked app.
    fileprivate func importLines(_ body: Data) async throws -> (status: HTTPResponseStatus, body: Data) {
        let admin = try self.admin
        return try await HTTPRequests.exchange(
            admin.head(.POST, "/v1/import?path=\(AttackedApp.flexible.rawValue)", bodyBytes: body.count), body,
            with: admin.host, admin.port, on: eventLoops, answerBytesMax: 1 << 30)
    }
}

extension Data {
    /// The bytes with every second one replaced by a line end.
    fileprivate func withNewlines() -> Data {
        var data = self
        for index in stride(from: 1, to: data.count, by: 2) { data[index] = UInt8(ascii: "\n") }
        return data
    }
}
