import Yams

/// Paths in a configuration file: those that do not begin with / are relative to the folder of the file, wherever the
/// command is started.
struct ConfiguredPaths {
    private static let keys: Set = [
        "data", "tls-certificate", "tls-key", "rules", "admin-token-file", "app-config", "jwks", "ca", "password-file",
    ]
    /// Those whose values are lists of paths.
    private static let listKeys: Set = ["dataclasses", "api-keys", "administrators"]
    /// The folder of the file, with a slash at its end; empty if the file is in the current directory.
    private let folder: String

    init(ofFile path: String) {
        folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
    }

    /// The settings, with paths that can be used in the current directory.
    func resolved(_ node: Node) -> Node {
        guard var mapping = node.mapping else { return node }
        for (key, value) in mapping {
            if let path = value.scalar?.string, Self.keys.contains(key.scalar?.string ?? "") {
                mapping[key]?.scalar?.string = resolved(path)
            } else if Self.listKeys.contains(key.scalar?.string ?? ""), let files = value.sequence {
                mapping[key]?.sequence = Node.Sequence(
                    files.map { file in
                        var file = file
                        if let path = file.scalar?.string { file.scalar?.string = resolved(path) }
                        return file
                    })
            } else {
                mapping[key] = resolved(value)
            }
        }
        return .mapping(mapping)
    }

    private func resolved(_ path: String) -> String {
        let isWhole = path.isEmpty || path.hasPrefix("/") || Self.isForShells(path) || path.contains("://")
        return isWhole || path == "everybody" ? path : folder + path
    }

    /// True if a shell would put the folder of a user in front, as for ~/data and ~ann/data.
    static func isForShells(_ path: String) -> Bool { path.prefixMatch(of: /~[^\/]*\//) != nil }
}
