/// What the changesets of a DOWNLOAD of flexible sync are to the client (`Spec/FlexibleSync.md`, section 1.5).
public enum DownloadKind: Hashable, Sendable {
    /// What has happened in its view.
    case steady
    /// What takes its file from the active subscription set to another one, or a part of that: the whole has at
    /// least one changeset, and server versions of its own.
    case bootstrap(QueryVersion, isLast: Bool)
}
