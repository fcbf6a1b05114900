import CBuildInfo

/// What was built.
enum BuildInfo {
    /// Of the next release, until there is one; CHANGELOG.md says what is in it.
    static let version = "0.1.0-dev"
    /// The commit, or "unknown".
    static var commit: String { String(cString: anabranch_commit()) }
    static var text: String { "anabranch \(version), commit \(commit)" }
}
