import AnabranchCore
import AnabranchServer
import AnabranchSimperium

@testable import AnabranchSimperiumWire

/// A client of the wire with one bucket, made after what real ones were seen to do, their mistakes included.
///
/// It keeps what the server has (ghosts) and what its application sees (copies). What matters is the ghosts; nothing
/// that a real client might get wrong in its copies makes the server wrong.
final class ModelClient {
    enum Kind: String, CaseIterable {
        case node = "node-simperium", android, ios
    }

    struct Ghost: Equatable {
        var version: Int64
        var body: EntityBody
    }

    private struct Sent {
        let ident: String
        /// The message, to be sent again.
        var text: String
        let isDeletion: Bool
    }

    let kind: Kind
    let name: String
    private(set) var ghosts: [String: Ghost] = [:]
    private(set) var copies: [String: EntityBody] = [:]
    private var sent: [String: Sent] = [:]
    /// Entities that were changed while a change of them was on its way.
    private var changed: Set<String> = []
    private var owedDeletions: Set<String> = []
    private var cv: String?
    /// Changes that wait for the version that they were made from, by the entity.
    private var gaps: [String: JSONValue] = [:]
    /// The changes of these entities that came after: node works off those of one entity in order.
    private var waiting: [String: [JSONValue]] = [:]
    /// Entities that are listed and not yet fetched.
    private var fetches: [String: Int64] = [:]
    private var listed: [String: Ghost] = [:]
    private var socket: TextClient?
    private var requests = 0
    private var beats = 0
    /// True if the server has said since the beginning of the connection what the client has missed.
    private var isCaughtUp = false
    /// Changes that android is told while it fetches what was listed.
    private var held: [JSONValue] = []
    /// True from the beginning of a listing to its end.
    private var isListing = false
    private var listedCV = ""
    /// What no client should have to see.
    private(set) var failures: [String] = []

    init(_ kind: Kind, name: String) {
        self.kind = kind
        self.name = name
    }

    var isConnected: Bool { socket != nil }
    var isBusy: Bool { !sent.isEmpty || !gaps.isEmpty || !fetches.isEmpty || isListing || !owedDeletions.isEmpty }

    // MARK: The connection

    func connect(_ rig: WireRig, _ token: String) async throws {
        guard socket == nil else { return }
        let socket = try await rig.connect()
        self.socket = socket
        (held, waiting) = ([], [:])
        (isListing, isCaughtUp, fetches, gaps) = (false, kind == .ios && cv == nil, [:], [:])
        try await socket.send(Frame.opening(token, client: name, library: kind.rawValue))
        // Node sends what was made off line after init, and before it says what it knows.
        if kind == .node || kind == .ios && cv == nil { try await resend() }
        if let cv { try await say("cv:\(cv)") } else if kind != .ios || sent.isEmpty { try await list() }
    }

    func cut() async {
        await socket?.cut()
        socket = nil
    }

    /// Makes the version of the history that it stores an older one, as node does when it is cut off.
    private var olderCVs: [String] = []

    func fallBehind() {
        if kind == .node, let older = olderCVs.first { cv = older }
    }

    private func say(_ text: String) async throws { try await socket?.send("0:\(text)") }

    private func list() async throws {
        isListing = true
        (listed, fetches) = ([:], [:])
        try await say(kind == .node ? "i:1:::10" : "i::::3")
    }

    /// What was under way before the connection is sent again after the first answer.
    private func catchUp() async throws {
        isCaughtUp = true
        try await resend()
    }

    private func resend() async throws {
        for (_, request) in sent.sorted(by: { $0.key < $1.key }) { try await say(request.text) }
    }

    /// Reads everything that the server has sent so far.
    func read() async throws {
        guard let socket else { return }
        beats += 1
        try await socket.send("h:\(beats * 2)")
        while true {
            let message = try await socket.receive()
            if message == "h:\(beats * 2 + 1)" { return }
            try await take(message)
        }
    }

    // MARK: The application

    func edit(_ key: String, _ body: EntityBody) async throws {
        copies[key] = body
        try await changeOrNote(key)
    }

    func delete(_ key: String) async throws {
        guard copies.removeValue(forKey: key) != nil else { return }
        try await changeOrNote(key)
    }

    private func changeOrNote(_ key: String) async throws {
        if sent[key] != nil { changed.insert(key) } else { try await sendChange(key) }
    }

    /// Sends what makes the server have the copy.
    private func sendChange(_ key: String) async throws {
        changed.remove(key)
        let ghost = ghosts[key]
        guard let copy = copies[key] else {
            if ghost != nil { try await send(key, isDeletion: true, [:]) }
            return
        }
        let diff = ObjectDiff(from: ghost?.body ?? [:], to: copy)
        guard !diff.isEmpty else { return }
        var members: [String: JSONValue] = ["v": diff.json]
        if let ghost { members["sv"] = kind == .ios ? .string(String(ghost.version)) : .integer(ghost.version) }
        try await send(key, isDeletion: false, members)
    }

    private func send(_ key: String, isDeletion: Bool, _ members: [String: JSONValue]) async throws {
        requests += 1
        let ident = "\(name)-\(requests)"
        let text = String(Conversation.change(isDeletion ? "-" : "M", key, ident, members).dropFirst(2))
        sent[key] = Sent(ident: ident, text: text, isDeletion: isDeletion)
        // iOS says nothing before it knows what it has missed.
        if kind != .ios || isCaughtUp { try await say(text) }
    }

    // MARK: Messages

    private func take(_ message: String) async throws {
        guard message.hasPrefix("0:") else { return failures.append(message) }
        let text = message.dropFirst(2)
        if text.hasPrefix("auth:") {
            if text.hasPrefix("auth:{") { failures.append(message) }
        } else if text == "cv:?" {
            cv = nil
            if kind == .ios, !sent.isEmpty { try await resend() } else { try await list() }
        } else if text.hasPrefix("i:") {
            try await takePage(JSONValue(parsing: text.dropFirst(2).utf8, depthMax: 200))
        } else if text.hasPrefix("e:") {
            try await takeEntity(String(text.dropFirst(2)))
        } else if text.hasPrefix("c:") {
            let changes = try JSONValue(parsing: text.dropFirst(2).utf8, depthMax: 200).array ?? []
            for change in changes { try await take(change) }
            if !isCaughtUp { try await catchUp() }
        } else {
            failures.append(message)
        }
    }

    private func takePage(_ page: JSONValue) async throws {
        listedCV = page["current"]?.string ?? ""
        for entry in page["index"]?.array ?? [] {
            guard let key = entry["id"]?.string, let version = entry["v"]?.integer else { continue }
            if listed[key] != nil || fetches[key] != nil { failures.append("listed twice: \(key)") }
            if let body = entry["d"]?.members {
                listed[key] = Ghost(version: version, body: body)
            } else if let ghost = ghosts[key], ghost.version == version {
                listed[key] = ghost
            } else {
                fetches[key] = version
                try await say("e:\(key).\(version)")
            }
        }
        if let mark = page["mark"]?.string {
            try await say(kind == .node ? "i:1:\(mark)::10" : "i::\(mark)::3")
        } else {
            isListing = false
            try await endListing()
        }
    }

    private func endListing() async throws {
        guard !isListing, fetches.isEmpty else { return }
        let gone = Set(ghosts.keys).subtracting(listed.keys)
        for key in gone where sent[key] == nil { copies[key] = nil }
        for (key, ghost) in listed where sent[key] == nil { copies[key] = ghost.body }
        ghosts = listed
        cv = listedCV
        olderCVs = []
        if kind == .ios { try await say("cv:\(listedCV)") }
        let changes = held
        held = []
        for change in changes { try await take(change) }
        if !isCaughtUp { try await catchUp() }
    }

    private func takeEntity(_ text: String) async throws {
        let lines = text.split(separator: "\n", maxSplits: 1)
        let name = lines[0].split(separator: "."), key = String(name[0]), version = Int64(name[1]) ?? 0
        let body = try? JSONValue(parsing: (lines.count > 1 ? lines[1] : "").utf8, depthMax: 200)["data"]?.members
        if let change = gaps.removeValue(forKey: key) {
            // Without the version that it was made from, the change is dropped.
            if let body {
                ghosts[key] = Ghost(version: version, body: body)
                try await takeModification(change, key)
            }
            advance(to: change)
            for change in waiting.removeValue(forKey: key) ?? [] { try await take(change) }
            return
        }
        // iOS may have begun another listing meanwhile.
        guard fetches.removeValue(forKey: key) != nil else {
            if kind != .ios { failures.append("not asked for: \(text)") }
            return
        }
        if let body { listed[key] = Ghost(version: version, body: body) }
        try await endListing()
    }

    private func take(_ change: JSONValue) async throws {
        guard kind != .android || !isListing && fetches.isEmpty else { return held.append(change) }
        guard let key = change["id"]?.string, change["clientid"]?.string != nil, let idents = change["ccids"]?.array
        else {
            return failures.append("incomplete: \(change.encoded)")
        }
        let own = sent[key].map { request in idents.contains { $0 == .string(request.ident) } } ?? false
        if let code = change["error"]?.integer {
            guard own else { return }
            return try await takeError(code, key)
        }
        guard gaps[key] == nil else { return waiting[key, default: []].append(change) }
        if change["o"] == "-" {
            try await takeDeletion(key, isOwn: own)
        } else {
            try await takeModification(change, key)
        }
        advance(to: change)
    }

    /// A change is worked off. While another waits, the client comes back for it after a cut.
    private func advance(to change: JSONValue) {
        guard gaps.isEmpty else { return }
        if let cv { olderCVs = Array((olderCVs + [cv]).suffix(3)) }
        if cv != nil || kind == .node { cv = change["cv"]?.string }
    }

    private func takeError(_ code: Int64, _ key: String) async throws {
        switch (kind, code) {
        case (_, 409), (_, 412): break
        case (.node, _): failures.append("node is told \(code)")
        case (_, 405), (_, 440):
            // Once more, with the whole entity.
            guard let copy = copies[key], let request = sent[key], !request.text.contains("\"d\":") else { break }
            let text = String(
                Conversation.change("M", key, request.ident, ["d": .object(copy)]).dropFirst(2))
            sent[key]?.text = text
            return try await say(text)
        case (_, 404): break
        default: failures.append("told \(code)")
        }
        try await acknowledge(key, isAccepted: false)
    }

    private func acknowledge(_ key: String, isAccepted: Bool) async throws {
        let wasDeletion = sent.removeValue(forKey: key)?.isDeletion ?? false
        if owedDeletions.remove(key) != nil {
            return try await send(key, isDeletion: true, [:])
        }
        if kind == .ios, cv == nil, sent.isEmpty, !isListing { try await list() }
        guard changed.remove(key) != nil else {
            if !isAccepted, kind != .node { copies[key] = ghosts[key]?.body }
            return
        }
        // Of what was created again before the removal was acknowledged, node sends nothing.
        if kind == .node, wasDeletion { return }
        try await sendChange(key)
    }

    private func takeDeletion(_ key: String, isOwn: Bool) async throws {
        ghosts[key] = nil
        if isOwn { return try await acknowledge(key, isAccepted: true) }
        guard kind == .node else {
            if sent[key] == nil { copies[key] = nil }
            return
        }
        if sent[key] == nil {
            copies[key] = nil
            try await send(key, isDeletion: true, [:])
        } else if sent[key]?.isDeletion != true {
            owedDeletions.insert(key)
        }
    }

    private func takeModification(_ change: JSONValue, _ key: String) async throws {
        let source = change["sv"]?.integer, version = change["ev"]?.integer ?? 0
        guard let json = change["v"], let diff = try? ObjectDiff(parsing: json) else {
            return failures.append("no diff: \(change.encoded)")
        }
        let old = ghosts[key]
        let own =
            sent[key].map { request in
                (change["ccids"]?.array ?? []).contains { $0 == .string(request.ident) }
            } ?? false
        guard source == nil || source == old?.version else {
            switch kind {
            case .node:
                gaps[key] = change
                try await say("e:\(key).\(source ?? 0)")
            case .android: failures.append("a gap: \(change.encoded) over version \(old?.version ?? 0)")
            case .ios:
                if own { try await acknowledge(key, isAccepted: true) }
                if cv != nil, !isListing { try await list() }
            }
            return
        }
        guard let body = try? diff.applied(to: source == nil ? [:] : old?.body ?? [:], bytesMax: .max) else {
            return failures.append("it does not apply: \(change.encoded)")
        }
        let pending = sent[key] != nil && !own || changed.contains(key)
        if pending, let copy = copies[key], let before = old?.body {
            let ours = try? ObjectDiff(from: before, to: copy).rebased(over: diff, base: before)
            copies[key] = (try? ours?.applied(to: body, bytesMax: .max)) ?? copy
        } else if !pending {
            copies[key] = body
        }
        ghosts[key] = Ghost(version: version, body: body)
        if own { try await acknowledge(key, isAccepted: true) }
    }
}
