/// A family of SDKs that use Realm's sync protocol: Realm's own, or one made from a fork of realm-core. Their messages
/// are the same; names differ, and all the differences are in the table below (`Spec/Forks.md`).
public struct WireDialect: Sendable {
    /// The name as configurations spell it, in lower case.
    public let name: String

    /// The path of the WebSocket. Apps of Realm have a path each, which ends with it.
    package let path: String
    package let hasPathsOfApps: Bool
    /// The parameter of the URL that has the token.
    package let tokenParameter: String
    /// True if the tokens are those of an app's own issuer, which the SDK does not renew, and not the server's.
    package let hasTokensOfIssuers: Bool
    package let hasFlexibleSync: Bool
    /// True if a partition that is not extended JSON is taken literally, as a string.
    package let hasPlainPartitions: Bool

    private let partitionPrefix: String
    private let queryPrefix: String
    /// The characters that can stand between a prefix and a version.
    let separators: Set<Character>
    /// The release of realm-core that the SDKs are made from; nil if the client names its own.
    let release: CoreVersion?
    /// The name of `ErrorCode.Action.deleteRealm`.
    let deleteAction: String

    /// Realm's SDKs.
    public static let realm = WireDialect(
        name: "realm", path: "/realm-sync", hasPathsOfApps: true, tokenParameter: "baas_at", hasTokensOfIssuers: false,
        hasFlexibleSync: true, hasPlainPartitions: false, partitionPrefix: "com.mongodb.realm-sync",
        queryPrefix: "com.mongodb.realm-query-sync", separators: ["#", "/"], release: nil, deleteAction: "DeleteRealm")

    /// The SDKs of Barq.
    public static let barq = WireDialect(
        name: "barq", path: "/barq-sync", hasPathsOfApps: false, tokenParameter: "barq_at", hasTokensOfIssuers: true,
        hasFlexibleSync: true, hasPlainPartitions: true, partitionPrefix: "io.barq.sync",
        queryPrefix: "io.barq.query-sync", separators: ["#"],
        release: CoreVersion(14, 14), deleteAction: "DeleteBarq")

    /// The SDKs of Tessera, which has partitions only.
    public static let tessera = WireDialect(
        name: "tessera", path: "/tessera-sync", hasPathsOfApps: false, tokenParameter: "baas_at",
        hasTokensOfIssuers: true, hasFlexibleSync: false, hasPlainPartitions: true, partitionPrefix: "io.tessera.sync",
        queryPrefix: "io.tessera.query-sync", separators: ["#"], release: CoreVersion(14, 14),
        deleteAction: "DeleteRealm")

    /// The dialects that are not Realm's own.
    public static let forks = [barq, tessera]

    /// The name of a subprotocol, in front of the version (`Spec/Protocol.md`, section 2.1).
    func prefix(of mode: SyncMode) -> String {
        switch mode {
        case .partition: partitionPrefix
        case .flexible: queryPrefix
        }
    }
}

extension WireDialect: Hashable {
    /// True if both have the same name.
    public static func == (left: WireDialect, right: WireDialect) -> Bool { left.name == right.name }

    /// Hashes the name: equal dialects have the same one.
    public func hash(into hasher: inout Hasher) { hasher.combine(name) }
}
