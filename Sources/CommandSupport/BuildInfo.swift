import CBuildInfo

/// What was built.
package enum BuildInfo {
    /// Of the next release, until there is one; CHANGELOG.md says what is in it.
    package static let version = "0.1.0-dev"
    /// The commit, or "unknown".
    package static var commit: String { String(cString: anabranch_commit()) }

    package static func text(of program: String) -> String { "\(program) \(version), commit \(commit)" }
}
