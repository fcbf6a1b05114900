import AnabranchCore
import AnabranchServer
import Foundation
import Testing

@testable import AnabranchSimperiumWire

/// The frames that real clients have sent to a scripted server, sent to ours: it takes every frame, and answers what
/// the client waits for.
@Suite(.timeLimit(.minutes(30))) struct TranscriptTests {
    /// One recorded connection.
    struct Recording: CustomTestStringConvertible {
        let name: String
        let frames: [(isClient: Bool, text: String)]

        var testDescription: String { name }
    }

    static func recordings() throws -> [Recording] {
        try ["node", "android"].flatMap { client in
            let folder = URL(filePath: #filePath).deletingLastPathComponent()
            let file = folder.appending(path: "Transcripts/\(client).jsonl")
            return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").enumerated().map {
                index, line in
                let json = try JSONValue(parsing: line.utf8, depthMax: 200)
                let frames = (json["frames"]?.array ?? []).compactMap(\.array).filter { $0.count == 3 }
                return Recording(
                    name: "\(client), line \(index + 1), \(json["scenario"]?.string ?? "")",
                    frames: frames.map { ($0[1] == "client", $0[2].string ?? "") })
            }
        }
    }

    @Test(arguments: try recordings()) func everyFrameIsAnswered(recording: Recording) async throws {
        try await WireRig.run { rig in
            let login = try await rig.logIn()
            try await Self.prepare(recording, rig, login)
            let client = try await rig.connect()
            var replay = Replay(login: login)
            for (isClient, text) in recording.frames {
                // Shortened frames are no frames.
                guard isClient, !text.hasPrefix("[closed"), !text.hasSuffix(" characters)") else { continue }
                try await replay.say(text, to: client)
            }
            #expect(replay.failures.isEmpty, "\(replay.failures)")
        }
    }

    /// Makes the entities that the scripted server listed.
    private static func prepare(
        _ recording: Recording, _ rig: WireRig, _ login: AppServices.PlainLogin
    ) async throws {
        guard let text = recording.frames.first(where: { !$0.isClient && $0.text.hasPrefix("0:i:") })?.text,
            let index = try? JSONValue(parsing: text.dropFirst(4).utf8, depthMax: 200)["index"]?.array
        else { return }
        let other = try await Conversation(rig, login, client: "other", library: "other", bucket: "b")
        try await other.list()
        for entry in index {
            guard let key = entry["id"]?.string, let version = entry["v"]?.integer else { continue }
            // Versions of their own, until it is the one that was listed.
            for number in 1..<max(1, version) {
                try await other.make("M", key, ["d": ["before": .integer(number)]])
            }
            try await other.make("M", key, ["d": entry["d"] ?? ["t": "abc", "n": 1, "last": true]])
        }
    }

    /// A client that says what was recorded, and waits for the answers.
    private struct Replay {
        let login: AppServices.PlainLogin
        /// The newest version of the history that was told.
        private var cv = ""
        private var mark = ""
        private(set) var failures: [String] = []

        init(login: AppServices.PlainLogin) { self.login = login }

        mutating func say(_ text: String, to client: TextClient) async throws {
            if text.hasPrefix("h:") {
                try await client.send(text)
                let answer = try await hear(client) { $0.hasPrefix("h:") }
                check(answer == "h:\((Int(text.dropFirst(2)) ?? 0) + 1)", text)
                return
            }
            let parts = text.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
            let prefix = parts[0] + ":"
            switch parts[1] {
            case "init":
                var members = try JSONValue(parsing: parts[2].utf8).object ?? [:]
                members["token"] = .string(login.token)
                members["app_id"] = .string(WireRig.app)
                try await client.send("\(prefix)init:\(JSONValue.object(members).encoded)")
                let answer = try await hear(client) { $0.hasPrefix(prefix + "auth:") }
                check(answer == prefix + "auth:ann@example.com", text)
                if let command = members["cmd"]?.string { try await listen(command, prefix, client) }
            case "i", "cv":
                let command = parts[1] == "cv" ? "cv:\(cv)" : text.dropFirst(prefix.count).description
                try await client.send(prefix + command)
                try await listen(command, prefix, client)
            case "e":
                try await client.send(text)
                let answer = try await hear(client) { $0.hasPrefix(prefix + "e:") }
                let (head, data) = answer.splitAtNewline()
                check(head == text && (data == "?" || data.hasPrefix("{\"data\":{") && !data.contains("\n")), text)
            case "c":
                try await client.send(text)
                let request = try JSONValue(parsing: parts[2].utf8, depthMax: 200)["ccid"]?.string ?? ""
                let answer = try await hear(client) { $0.hasPrefix(prefix + "c:") && $0.contains(request) }
                let change = try JSONValue(parsing: answer.dropFirst(prefix.count + 2).utf8, depthMax: 200).array?.first
                check(change?["clientid"]?.string != nil && change?["ccids"] == [.string(request)], text)
                if change?["error"] == nil {
                    check(change?["ev"]?.integer != nil, text)
                    cv = change?["cv"]?.string ?? ""
                } else {
                    check(change?["error"]?.integer != nil, text)
                }
            default: check(false, "another command: \(text)")
            }
        }

        private mutating func listen(_ command: String, _ prefix: String, _ client: TextClient) async throws {
            if command.hasPrefix("cv:") {
                let answer = try await hear(client) { $0.hasPrefix(prefix + "c:") || $0.hasPrefix(prefix + "cv:") }
                check(answer == prefix + (cv.isEmpty ? "cv:?" : "c:[]"), command)
                if cv.isEmpty {
                    // As every client does.
                    try await client.send(prefix + "i:1:::10")
                    try await listen("i:1:::10", prefix, client)
                }
                return
            }
            let answer = try await hear(client) { $0.hasPrefix(prefix + "i:") }
            let page = try JSONValue(parsing: answer.dropFirst(prefix.count + 2).utf8, depthMax: 200)
            cv = page["current"]?.string ?? ""
            check(!cv.isEmpty && page["index"]?.array != nil && page["mark"] != .null, command)
            for entry in page["index"]?.array ?? [] {
                check(entry["id"]?.string != nil && entry["v"]?.integer != nil, command)
                check((entry["d"] != nil) == command.hasPrefix("i:1"), command)
            }
            // The pages to the end, so that the client listens.
            guard let mark = page["mark"]?.string else { return }
            let next = "i:1:\(mark)::10"
            try await client.send(prefix + next)
            try await listen(next, prefix, client)
        }

        private func hear(_ client: TextClient, _ isAnswer: (String) -> Bool) async throws -> String {
            while true {
                let message = try await client.receive()
                if isAnswer(message) { return message }
            }
        }

        private mutating func check(_ condition: Bool, _ text: String) { if !condition { failures.append(text) } }
    }
}

extension String {
    fileprivate func splitAtNewline() -> (String, String) {
        let parts = split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false)
        return (String(parts[0]), parts.count > 1 ? String(parts[1]) : "")
    }
}
