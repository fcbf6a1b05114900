/// The abilities of a client's release to handle what it downloads (`Spec/Protocol.md`, section 6.1).
public struct ClientCapabilities: Hashable, Sendable {
    /// True if it can read lists and dictionaries inside Mixed.
    public var readsCollectionsInMixed: Bool
    /// True if it can read asymmetric classes.
    public var readsAsymmetricClasses: Bool
    /// True if it survives the erasure of a dictionary entry that it does not have.
    public var erasesAbsentEntries: Bool
    /// True if it can write into a list of Mixed over a link whose target it does not have.
    public var overwritesDanglingLinks: Bool

    /// Creates the capabilities of the newest releases, except for those that are given.
    public init(
        readsCollectionsInMixed: Bool = true, readsAsymmetricClasses: Bool = true, erasesAbsentEntries: Bool = true,
        overwritesDanglingLinks: Bool = true
    ) {
        self.readsCollectionsInMixed = readsCollectionsInMixed
        self.readsAsymmetricClasses = readsAsymmetricClasses
        self.erasesAbsentEntries = erasesAbsentEntries
        self.overwritesDanglingLinks = overwritesDanglingLinks
    }

    /// The capabilities of the newest releases, which get every changeset as it is in the log.
    public static let all = ClientCapabilities()
}
