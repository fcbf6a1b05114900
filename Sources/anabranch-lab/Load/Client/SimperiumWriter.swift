/// Edits the text of an entity, one edit after the other.
actor SimperiumWriter {
    nonisolated let client: SimperiumClient
    private let key: String
    /// The newest version of the entity.
    private var version = 0
    private var number = 0

    /// The outcome of a change.
    struct Outcome: Sendable {
        /// The code of the refusal; nil if it is accepted.
        var code: Int?
        var sent: ContinuousClock.Instant
        var acknowledged: ContinuousClock.Instant

        var isAccepted: Bool { code == nil }
    }

    init(_ client: SimperiumClient, key: String) {
        self.client = client
        self.key = key
    }

    /// Makes the entity.
    func make(_ text: String) async throws {
        guard try await make(key, text).isAccepted else { throw LoadError("an entity is refused") }
        version = 1
    }

    /// Makes another entity.
    @discardableResult
    func make(_ key: String, _ text: String) async throws -> Outcome {
        try await send(key, "{\"text\":{\"o\":\"+\",\"v\":\"\(text)\"}}", "")
    }

    /// - Parameters:
    ///   - delta: with `\t` between its tokens, as JSON has it.
    ///   - source: the version that is edited; nil for the newest.
    @discardableResult
    func edit(_ delta: String, from source: Int? = nil) async throws -> Outcome {
        let diff = "{\"text\":{\"o\":\"d\",\"v\":\"\(delta)\"}}"
        let outcome = try await send(key, diff, ",\"sv\":\(source ?? version)")
        if outcome.isAccepted { version += 1 }
        return outcome
    }

    private func send(_ key: String, _ diff: String, _ source: String) async throws -> Outcome {
        number += 1
        let ident = "\(client.name)-\(number)"
        let change = "0:c:{\"o\":\"M\",\"id\":\"\(key)\",\"ccid\":\"\(ident)\",\"v\":\(diff)\(source)}"
        let sent = ContinuousClock.now
        let answer = try await client.ask(change, .containing("\"ccids\":[\"\(ident)\"]"))
        // Of an error, which is short.
        let code = answer.text.prefix(300).firstMatch(of: /"error":(\d+)/).flatMap { Int($0.output.1) }
        return Outcome(code: code, sent: sent, acknowledged: answer.time)
    }
}
