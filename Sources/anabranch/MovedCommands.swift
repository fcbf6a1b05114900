/// Commands that are part of `anabranch-lab` now. For one release their old names say so.
enum MovedCommands {
    /// The command of `anabranch-lab` by the former one of `anabranch`.
    static let newNames = [
        "vectors": "check vectors", "diff-merge": "fuzz merge", "converge": "fuzz convergence",
        "trace": "replay trace", "merge": "merge", "cases": "bench cases", "bench": "bench merge",
        "bench-server": "bench server", "bench-apply": "bench apply",
    ]

    /// What to tell a user whose arguments begin with an old name; nil for all other arguments.
    static func notice(for arguments: some Collection<String>) -> String? {
        guard let oldName = arguments.first, let newName = newNames[oldName] else { return nil }
        return "Error: 'anabranch \(oldName)' is 'anabranch-lab \(newName)' now.\n"
    }
}
