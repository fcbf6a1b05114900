/// A family of SDKs that speak Realm's sync protocol: Realm's own, or one made of a fork of realm-core. Their messages
/// are the same; names differ, and all that differs is in the table below (`Spec/Forks.md`).
public struct WireDialect: Sendable {
    /// As configurations have it, in lower case.
    public let name: String

    /// The path of the WebSocket. Apps of Realm have a path each, which ends with it.
    package let path: String
    package let hasPathsOfApps: Bool
    /// The parameter of the URL that has the token.
    package let tokenParameter: String
    /// Whether the tokens are those of an app's own issuer, which the SDK does not renew, and not the server's.
    package let hasTokensOfIssuers: Bool
    package let hasFlexibleSync: Bool
    /// Whether a partition that is no extended JSON is a string as it is.
    package let hasPlainPartitions: Bool

    private let partitionPrefix: String
    private let queryPrefix: String
    /// What can stand between a prefix and a version.
    let separators: Set<Character>
    /// The release of realm-core that it is made of; nil if the client says which one it has.
    let release: CoreVersion?
    /// `ErrorCode.Action.deleteRealm`.
    let deleteAction: String

    /// Realm's SDKs.
    public static let realm = WireDialect(
        name: "realm", path: "/realm-sync", hasPathsOfApps: true, tokenParameter: "baas_at", hasTokensOfIssuers: false,
        hasFlexibleSync: true, hasPlainPartitions: false, partitionPrefix: "com.mongodb.realm-sync",
        queryPrefix: "com.mongodb.realm-query-sync", separators: ["#", "/"], release: nil, deleteAction: "DeleteRealm")

    /// Those of Barq.
    public static let barq = WireDialect(
        name: "barq", path: "/barq-sync", hasPathsOfApps: false, tokenParameter: "barq_at", hasTokensOfIssuers: true,
        hasFlexibleSync: true, hasPlainPartitions: true, partitionPrefix: "io.barq.sync",
        queryPrefix: "io.barq.query-sync", separators: ["#"],
        release: CoreVersion(14, 14), deleteAction: "DeleteBarq")

    /// Tessera, which has partitions only.
    public static let tessera = WireDialect(
        name: "tessera", path: "/tessera-sync", hasPathsOfApps: false, tokenParameter: "baas_at",
        hasTokensOfIssuers: true, hasFlexibleSync: false, hasPlainPartitions: true, partitionPrefix: "io.tessera.sync",
        queryPrefix: "io.tessera.query-sync", separators: ["#"], release: CoreVersion(14, 14),
        deleteAction: "DeleteRealm")

    /// Those that are not Realm's own.
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
    /// Whether both have one name.
    public static func == (left: WireDialect, right: WireDialect) -> Bool { left.name == right.name }

    /// Equal dialects have one name.
    public func hash(into hasher: inout Hasher) { hasher.combine(name) }
}
