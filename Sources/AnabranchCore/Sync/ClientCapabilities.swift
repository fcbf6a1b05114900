/// What a client's release can do with what it downloads (`Spec/Protocol.md`, section 6.1).
public struct ClientCapabilities: Hashable, Sendable {
    /// It can read lists and dictionaries inside Mixed.
    public var readsCollectionsInMixed: Bool
    /// It can read asymmetric classes.
    public var readsAsymmetricClasses: Bool
    /// It survives the erasure of a dictionary entry that it does not have.
    public var erasesAbsentEntries: Bool
    /// It can write into a list of Mixed over a link whose target it does not have.
    public var overwritesDanglingLinks: Bool

    /// What the newest releases can do, unless something else is said.
    public init(
        readsCollectionsInMixed: Bool = true, readsAsymmetricClasses: Bool = true, erasesAbsentEntries: Bool = true,
        overwritesDanglingLinks: Bool = true
    ) {
        self.readsCollectionsInMixed = readsCollectionsInMixed
        self.readsAsymmetricClasses = readsAsymmetricClasses
        self.erasesAbsentEntries = erasesAbsentEntries
        self.overwritesDanglingLinks = overwritesDanglingLinks
    }

    /// Of the newest releases: they get every changeset as it is in the log.
    public static let all = ClientCapabilities()
}
