import Synchronization

/// A user's permission on a synced file. Each one includes those before it.
public enum Permission: String, Comparable, CaseIterable, Sendable {
    /// A session is refused with error 206.
    case none
    /// An upload with changesets is refused with error 230.
    case read
    /// Nothing is refused.
    case write

    private var rank: Int {
        switch self {
        case .none: 0
        case .read: 1
        case .write: 2
        }
    }

    /// True if the left permission allows less.
    public static func < (left: Permission, right: Permission) -> Bool { left.rank < right.rank }
}

/// Decides who may read and write which synced file (`Spec/Protocol.md`, section 7.1).
public protocol Authorizer: Sendable {
    /// The permission of a user on one file. Called on the event loops at each BIND and each UPLOAD, so it must not
    /// block.
    /// - Parameter partition: the partition value in its canonical text, however the client spells it: in the form of
    ///   `PartitionValue.bytes`, which `PartitionValue.init(extendedJSON:)` reads. A text that is not a value is as the
    ///   client sent it.
    func permission(for principal: Principal, on partition: [UInt8]) -> Permission

    /// The reason for the permission of a user on a file, in words for an operator.
    func reason(for principal: Principal, on partition: [UInt8]) -> String

    /// Loads changed permissions. The server calls it every second.
    /// - Returns: whether permissions have changed; then all open sessions are checked again.
    func refresh() async -> Bool
}

extension Authorizer {
    /// The program that embeds the server decides.
    public func reason(for principal: Principal, on partition: [UInt8]) -> String {
        "the program that embeds the server decides"
    }
}

/// Allows every user everything.
public struct AllowAllAuthorizer: Authorizer {
    /// An authorizer without settings.
    public init() {}

    /// Always `write`.
    public func permission(for principal: Principal, on partition: [UInt8]) -> Permission { .write }

    /// There are no rules.
    public func reason(for principal: Principal, on partition: [UInt8]) -> String {
        "there are no rules: everybody may read and write"
    }

    /// Always false: nothing changes.
    public func refresh() async -> Bool { false }
}

/// An authorizer that asks a function of the program that embeds the server.
public final class CallbackAuthorizer: Authorizer {
    private let decide: @Sendable (Principal, [UInt8]) -> Permission
    private let hasChanged = Mutex(false)

    /// An authorizer with a function.
    /// - Parameter decide: see `Authorizer.permission(for:on:)`.
    public init(_ decide: @escaping @Sendable (_ principal: Principal, _ partition: [UInt8]) -> Permission) {
        self.decide = decide
    }

    /// To be called when the function begins to decide differently. Sessions that it no longer permits end within a
    /// second.
    public func changed() { hasChanged.withLock { $0 = true } }

    /// The permission that the function returns.
    public func permission(for principal: Principal, on partition: [UInt8]) -> Permission {
        decide(principal, partition)
    }

    /// True if `changed()` was called since the last time.
    public func refresh() async -> Bool {
        hasChanged.withLock { hasChanged in
            defer { hasChanged = false }
            return hasChanged
        }
    }
}
