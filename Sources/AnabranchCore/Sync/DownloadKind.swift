/// The meaning of the changesets in a DOWNLOAD of flexible sync for the client (`Spec/FlexibleSync.md`, section 1.5).
public enum DownloadKind: Hashable, Sendable {
    /// Changes that have happened in its view.
    case steady
    /// The changes that take its file from the active subscription set to another one, or a part of them: the whole has
    /// at least one changeset, and server versions of its own.
    case bootstrap(QueryVersion, isLast: Bool)
}
