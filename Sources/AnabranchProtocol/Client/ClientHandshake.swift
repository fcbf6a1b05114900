import AnabranchCore

/// The client's part in opening a WebSocket: its offer, and its check of the answer (`Spec/Protocol.md`, sections 2.1
/// and 2.2).
public struct ClientHandshake: Equatable, Sendable {
    /// The mode of the sessions that the connection is for.
    public let mode: SyncMode
    /// The dialect, which decides the names in the protocol.
    public let dialect: WireDialect

    /// The handshake of a connection of this mode.
    public init(_ mode: SyncMode, in dialect: WireDialect = .realm) { (self.mode, self.dialect) = (mode, dialect) }

    /// The value of the header `Sec-WebSocket-Protocol` in the request: all versions, the highest first.
    public var offer: String { ProtocolVersion.supported.reversed().map(element).joined(separator: ", ") }

    /// The version that the server has chosen.
    ///
    /// - Parameter answer: the value of the header in the server's answer; nil if there is none.
    /// - Throws: an error with the code 105 if that is not an element of the offer.
    public func version(chosen answer: String?) throws(ProtocolError) -> ProtocolVersion {
        guard let answer else { throw ProtocolError(.wrongProtocolVersion, "the server chooses no subprotocol") }
        guard let number = ProtocolVersion.supported.first(where: { element($0) == answer }) else {
            let excerpt = String(excerptOf: Array(answer.utf8))
            throw ProtocolError(.wrongProtocolVersion, "the server chooses a subprotocol not offered: \(excerpt)")
        }
        return ProtocolVersion(number)
    }

    private func element(_ version: Int) -> String { "\(dialect.prefix(of: mode))#\(version)" }
}
