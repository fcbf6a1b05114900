import AnabranchProtocol
import AnabranchServer
import CommandSupport
import Yams

/// The ways in which clients of a fork of Realm's SDKs come into an app, in the configuration file:
///
///     barq: {}
///     tessera: {old-tokens: true, expiry: optional, admins: true}
struct ForkSection {
    /// The place of the section, for messages.
    let place: String
    let isFlexible: Bool
    private(set) var problems: [String] = []

    private static let keys = ["expiry", "old-tokens", "admins", "path", "needs-path"]

    init(place: String, isFlexible: Bool) { (self.place, self.isFlexible) = (place, isFlexible) }

    mutating func read(_ node: Node) -> ForkSettings {
        var settings = ForkSettings()
        guard let mapping = node.mapping else {
            problems.append("\(place): \(AppsSection.found(node)); allowed: {}, or settings like {expiry: optional}")
            return settings
        }
        for (key, value) in mapping {
            let name = key.scalar?.string ?? ""
            switch name {
            case "expiry":
                switch value.scalar?.string {
                case "required": settings.needsExpiry = true
                case "optional": settings.needsExpiry = false
                default: problems.append("\(place): expiry: \(AppsSection.found(value)); allowed: required, optional")
                }
            case "old-tokens": settings.takesOldTokens = flag(value, name)
            case "admins": settings.knowsAdmins = flag(value, name)
            case "path":
                settings.path = value.scalar?.string
                if settings.path?.isEmpty ?? true {
                    problems.append("\(place): path: \(AppsSection.found(value)); allowed: the claim `path` of tokens")
                }
            case "needs-path": settings.needsPath = flag(value, name)
            default: problems.append("\(place): " + KnownWords.unknown("setting", name, of: Self.keys))
            }
        }
        if !isFlexible, settings.path != nil || settings.needsPath {
            problems.append(
                "\(place): path and needs-path: only with sync: flexible; partitions have names of their own")
        } else if settings.needsPath, settings.path == nil {
            problems.append("\(place): needs-path: only with path, which says what tokens have to name")
        }
        return settings
    }

    private mutating func flag(_ node: Node, _ name: String) -> Bool {
        switch node.scalar?.string {
        case "true": return true
        case "false": return false
        default:
            problems.append("\(place): \(name): \(AppsSection.found(node)); allowed: true, false")
            return false
        }
    }
}

extension ForkSettings {
    /// The settings in the form that a section reads.
    func words(quoted: (String) -> String) -> String {
        var words: [String] = []
        if !needsExpiry { words.append("expiry: optional") }
        if takesOldTokens { words.append("old-tokens: true") }
        if knowsAdmins { words.append("admins: true") }
        if let path { words.append("path: \(quoted(path))") }
        if needsPath { words.append("needs-path: true") }
        return "{\(words.joined(separator: ", "))}"
    }
}
