import CBuildInfo

/// The release and the commit that were built.
package enum BuildInfo {
    /// The number of the next release, until it is out; CHANGELOG.md says what is in it.
    package static let version = "0.1.0-dev"
    /// The commit, or "unknown".
    package static var commit: String { String(cString: anabranch_commit()) }

    package static func text(of program: String) -> String { "\(program) \(version), commit \(commit)" }
}
