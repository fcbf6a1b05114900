import AnabranchCore

/// A request of the public description of the protocol that no client from 12.0 on sends (`Spec/Protocol.md`, section
/// 4.6). It is refused, or ends its session, but never the connection.
struct ObsoleteRequest: Equatable, Sendable {
    enum Kind: String, CaseIterable {
        case transact, refresh, alloc
        case state = "state_request"
        case clientVersion = "client_version_request"
    }

    /// The first word of an answer.
    private enum Answer: String {
        case transact, state
        case clientVersion = "client_version"
    }

    let kind: Kind
    let session: SessionID
    /// The file that a CLIENT_VERSION_REQUEST asks about.
    private(set) var file: SaltedFileID?

    /// - Returns: nil if the message is not one of them.
    /// - Throws: 103 if the message is malformed. The body is not looked at otherwise.
    init?(_ message: [UInt8], _ limits: Limits) throws(ProtocolError) {
        guard let kind = message.withUnsafeBytes({ Kind(firstWordOf: $0) }) else { return nil }
        self.kind = kind
        var head = HeadReader(message, kind)
        session = try head.ident()
        var bodyBytes = 0
        switch kind {
        case .transact:
            for _ in 0..<2 { _ = try head.number() as UInt64 }
            bodyBytes = try head.size()
            guard bodyBytes <= limits.messageBytesMax else { throw head.syntax("changeset too long") }
        case .refresh:
            bodyBytes = try head.size()
            guard bodyBytes <= limits.tokenBytesMax else { throw head.syntax("token too long") }
        case .state: try Self.checkState(&head)
        case .clientVersion: file = SaltedFileID(ident: try head.ident(), salt: try head.ident())
        case .alloc: break
        }
        _ = try head.end(bodyBytes: bodyBytes)
    }

    /// `<partial version> <partial salt> <offset> <need recent> <min file format> <max file format>
    /// <min history schema> <max history schema>`
    private static func checkState(_ head: inout HeadReader) throws(ProtocolError) {
        for _ in 0..<3 { _ = try head.number() as UInt64 }
        let needsRecent: UInt64 = try head.number()
        guard needsRecent <= 1 else { throw head.syntax("no flag") }
        for _ in 0..<4 {
            let format: UInt64 = try head.number()
            guard format <= UInt32.max else { throw head.syntax("format out of range") }
        }
    }

    /// The answer to a session that goes on; nil if only the file can answer, or if the session ends.
    var answer: EncodedMessage? {
        switch kind {
        // Status 3: not supported. The rest is 0, except for the origin, which is the server's.
        case .transact: Self.answer(.transact, session, [3, 0, 0, 0, 1, 0])
        // The newest state is the empty one: the client synchronizes step by step.
        case .state: Self.answer(.state, session, [0, 0, 0, 0, 0, 0])
        case .refresh, .clientVersion, .alloc: nil
        }
    }

    static func answer(clientVersion: ClientVersion, _ session: SessionID) -> EncodedMessage {
        answer(.clientVersion, session, [clientVersion.rawValue])
    }

    private static func answer(_ kind: Answer, _ session: SessionID, _ fields: [UInt64]) -> EncodedMessage {
        var head = HeadWriter(kind)
        head.write(session)
        for field in fields { head.write(field) }
        return head.end()
    }

    /// The reason why the session ends; nil if it goes on.
    var refusal: ErrorMessage? {
        switch kind {
        case .transact, .state, .clientVersion: return nil
        case .refresh: return ErrorMessage(.otherSessionError, "refresh: connect again with the new token")
        case .alloc:
            var error = ErrorMessage(.otherSessionError, "alloc: this server has no subservers")
            (error.action, error.triesAgain) = (.applicationBug, false)
            return error
        }
    }

    /// True if the client must have named its file before.
    var needsFile: Bool { kind == .transact || kind == .alloc }
}

extension ProtocolError {
    /// The error for a message of unknown type; it quotes the first word, if that is one.
    static func unknownMessage(_ message: [UInt8]) -> ProtocolError {
        let word = message.prefix(32).prefix { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\n") }
        let isWord = !word.isEmpty && word.allSatisfy { (UInt8(ascii: "!")...UInt8(ascii: "~")).contains($0) }
        let name = isWord ? " '\(String(decoding: word, as: UTF8.self))'" : ""
        return ProtocolError(.unknownMessage, "unknown type\(name)")
    }
}
