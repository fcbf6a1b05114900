import AnabranchHistory
import Synchronization

/// What somebody may do with a synced file.
public enum Right: String, Comparable, CaseIterable, Sendable {
    case none, read, write

    private var rank: Int {
        switch self {
        case .none: 0
        case .read: 1
        case .write: 2
        }
    }

    public static func < (left: Right, right: Right) -> Bool { left.rank < right.rank }
}

/// Who is at the other end of a connection, as of its handshake.
public struct Member: Equatable, Sendable {
    /// The app id of the URL; empty if the URL has none.
    public var app: String
    /// Who the member's client files belong to; nil if the server does not know.
    public var user: String?
    /// How the user logged in; nil if the server does not know.
    public var provider: String?
    /// The user's custom data, a JSON object.
    public var customData: String
    /// The login that the connection depends on; nil if it depends on none.
    public var login: String?

    public init(
        app: String, user: String? = nil, provider: String? = nil, customData: String = "{}", login: String? = nil
    ) {
        self.app = app
        self.user = user
        self.provider = provider
        self.customData = customData
        self.login = login
    }
}

/// Decides who may read and write what. A client without any right is refused with 206, one that writes without the
/// right to with 230 (`Spec/Protocol.md`, section 7.1).
public protocol Rights: Sendable {
    /// Called on the threads of sockets, at each BIND and each UPLOAD, so it has to know at once.
    /// - Parameter partition: the partition value as the client sent it, mostly extended JSON. Its bytes mean nothing
    ///   to the server.
    func right(of member: Member, to partition: [UInt8]) -> Right

    /// Called every second: looks for new rights.
    /// - Returns: whether rights have changed, so that all sessions have to be looked at again.
    func refresh() async -> Bool
}

/// Everybody may do everything.
public struct AllRights: Rights {
    public init() {}

    public func right(of member: Member, to partition: [UInt8]) -> Right { .write }

    public func refresh() async -> Bool { false }
}

/// The rights of a server that is embedded: a function, and a word when it decides differently from now on.
public final class EmbeddedRights: Rights {
    private let decide: @Sendable (Member, [UInt8]) -> Right
    private let hasChanged = Mutex(false)

    /// - Parameter decide: see `Rights.right`.
    public init(_ decide: @escaping @Sendable (_ member: Member, _ partition: [UInt8]) -> Right) {
        self.decide = decide
    }

    /// Within a second, sessions whose right is gone will have ended.
    public func changed() { hasChanged.withLock { $0 = true } }

    public func right(of member: Member, to partition: [UInt8]) -> Right { decide(member, partition) }

    public func refresh() async -> Bool {
        hasChanged.withLock { hasChanged in
            defer { hasChanged = false }
            return hasChanged
        }
    }
}
