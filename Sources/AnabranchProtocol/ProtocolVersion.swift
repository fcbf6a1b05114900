/// A version of the wire protocol, and what follows from it (`Spec/Protocol.md`, section 6).
public struct ProtocolVersion: Comparable, Hashable, Sendable {
    /// The versions that this library supports.
    public static let supported = 2...14

    /// The number that follows the name of the subprotocol.
    public let number: Int

    /// A version by its number, which need not be a supported one.
    public init(_ number: Int) { self.number = number }

    /// True if this library supports the version.
    public var isSupported: Bool { Self.supported.contains(number) }

    /// JSON_ERROR is known.
    public var hasErrorMessages: Bool { number >= 4 }

    /// Error 231 is known.
    public var hasCompensatingWrites: Bool { number >= 5 }

    /// JSON_ERROR tells the client what to do by its `action`; before, the client decides by the code.
    public var hasErrorActions: Bool { number >= 7 }

    /// LOG_MESSAGE is known. Older clients close the connection when they receive it.
    public var hasLogMessages: Bool { number >= 10 }

    /// DOWNLOAD of flexible sync estimates its progress by a real number; before, it has a count of bytes.
    public var hasProgressEstimates: Bool { number >= 12 }

    /// DOWNLOAD of flexible sync tells steady state from the end of a bootstrap.
    public var hasBatchStates: Bool { number >= 14 }

    /// True if the first version is older than the second.
    public static func < (left: ProtocolVersion, right: ProtocolVersion) -> Bool { left.number < right.number }
}

/// The outcome of comparing the client's offer in `Sec-WebSocket-Protocol` with the versions that the server supports
/// (`Spec/Protocol.md`, section 2.2).
///
/// A client of the other mode of sync, or without a common version, is let in all the same: it understands the error
/// message that `ServerConnection` then sends, whereas an HTTP status would tell its user nothing.
///
/// A server for apps of both modes accepts both, and answers the first BIND of a client with the wrong one by
/// `SyncMode.refusalOfOthers` of the app's mode (`Spec/FlexibleSync.md`, section 1.1).
public struct Negotiation: Equatable, Sendable {
    /// The element of the client's list to be echoed byte for byte.
    public let element: String

    /// The version to be spoken; not a supported one if that is why the client is refused.
    public let version: ProtocolVersion

    /// The mode that the client came with.
    public let mode: SyncMode

    /// The reason why the client cannot be served: 113 or 114 if its mode is not accepted, 105 if there is no common
    /// version; otherwise `nil`. A host that has another reason puts it here.
    public var refusal: ErrorMessage?

    /// True if the client is too old for the close codes 4001 … 4003, so that it has to be turned away by an HTTP
    /// status (section 2.4).
    public let usesOldCloseStyle: Bool

    /// The client's release, as far as it is known.
    public let release: ClientRelease

    /// The dialect, which decides the names in the protocol.
    public let dialect: WireDialect

    /// Chooses the highest version of an accepted mode that both sides know; otherwise the one best suited to a
    /// refusal.
    ///
    /// - Parameters:
    ///   - offer: the value of the header; several headers are joined by commas.
    ///   - userAgent: the value of the header that tells the client's release.
    ///   - modes: the modes that the server accepts; not empty.
    ///   - dialect: the dialect of the path by which the client came.
    /// - Throws: `NegotiationError` if no element belongs to the protocol in this dialect, to be answered with status
    ///   400.
    public init(
        offer: String, userAgent: String? = nil, accepting modes: Set<SyncMode> = [.partition],
        in dialect: WireDialect = .realm
    ) throws(NegotiationError) {
        let offers = offer.split(separator: ",").compactMap { Offer($0, dialect) }
        guard let highest = offers.max(by: { $0.version < $1.version }) else { throw NegotiationError() }
        let common = offers.filter(\.version.isSupported)
        let served = common.filter { modes.contains($0.mode) }
        let chosen = (served.isEmpty ? common : served).max { $0.version < $1.version } ?? highest
        element = String(chosen.element)
        version = chosen.version
        mode = chosen.mode
        if !modes.contains(chosen.mode) {
            refusal = (chosen.mode == .flexible ? SyncMode.partition : .flexible).refusalOfOthers
        } else if common.isEmpty {
            let spoken = ProtocolVersion.supported
            refusal = ErrorMessage(
                .wrongProtocolVersion, "the server speaks \(spoken.lowerBound) to \(spoken.upperBound)")
        } else {
            refusal = nil
        }
        usesOldCloseStyle = highest.version.number < 8
        release =
            dialect.release.map(ClientRelease.init) ?? ClientRelease(offering: highest.version, userAgent: userAgent)
        self.dialect = dialect
    }

    private struct Offer {
        let element: Substring
        let version: ProtocolVersion
        let mode: SyncMode

        /// `<prefix>#<version>` as new clients write it, or `<prefix>/<version>`; anything else is not for us.
        init?(_ text: Substring, _ dialect: WireDialect) {
            let element = text.trimmed
            guard let separator = element.lastIndex(where: dialect.separators.contains),
                let mode = SyncMode.allCases.first(where: { element[..<separator] == dialect.prefix(of: $0) })
            else { return nil }
            (self.element, self.mode) = (element, mode)
            let digits = element[element.index(after: separator)...].utf8
            guard digits.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(Substring(digits)) else {
                return nil
            }
            version = ProtocolVersion(number)
        }
    }
}

/// None of the subprotocols that a client offers is a version of the protocol in the dialect of its path.
public struct NegotiationError: Error, Equatable, Sendable {}

extension Substring {
    /// Without the spaces and tabs that HTTP allows around an element of a list.
    fileprivate var trimmed: Substring {
        var rest = utf8
        while let first = rest.first, first == 0x20 || first == 0x09 { rest.removeFirst() }
        while let last = rest.last, last == 0x20 || last == 0x09 { rest.removeLast() }
        return Substring(rest)
    }
}
