import AnabranchServer
import AnabranchSimperiumWire
import CommandSupport
import Yams

/// The buckets of an app that Simperium's clients sync, in the configuration file:
///
///     simperium:
///       buckets:
///         note: {form: deep, missing-sv: merge, strict-deletes: true, entity-bytes: 2097152}
///       other-buckets: refuse
///       api-keys: [keys.json]
///       administrators: [administrators.json]
struct SimperiumSection {
    private static let keys = ["buckets", "other-buckets", "api-keys", "administrators"]
    private static let bucketKeys = ["form", "missing-sv", "strict-deletes", "entity-bytes", "heal-node", "shared"]
    /// Options of buckets that Simperium has, and settings for what else is not served.
    private static let unservedKeys = [
        "capacity", "version_max", "version10_max", "cv-days", "schema", "delete-schema",
    ]
    /// The least length of a token, in bytes.
    private static let tokenBytes = 32
    /// The greatest size of an entity that still fits a message, in bytes.
    private static let entityBytes = 1_024...3 << 20

    /// The place of the section, for messages.
    let place: String
    private(set) var problems: [String] = []

    init(place: String) { self.place = place }

    mutating func read(_ node: Node) -> SimperiumApp {
        var app = SimperiumApp()
        guard let mapping = node.mapping else {
            problems.append("\(place): \(AppsSection.found(node)); allowed: {}, or like {buckets: {note: {}}}")
            return app
        }
        for (key, value) in mapping {
            switch key.scalar?.string {
            case "buckets":
                for (name, bucket) in value.mapping ?? [:] {
                    let name = name.scalar?.string ?? ""
                    guard SimperiumApp.isBucketName(name) else {
                        problems.append(
                            "\(place): buckets: '\(name)' cannot be a bucket; "
                                + "allowed: 1 to 64 letters, digits and ._-%")
                        continue
                    }
                    app.buckets[name] = settings(bucket, place: "\(place): buckets: \(name)")
                }
                if value.mapping == nil {
                    problems.append(
                        "\(place): buckets: \(AppsSection.found(value)); allowed: like {note: {form: flat}}")
                }
            case "other-buckets":
                switch value.scalar?.string {
                case "allow": app.otherBuckets = BucketSettings()
                case "refuse": app.otherBuckets = nil
                default:
                    problems.append("\(place): other-buckets: \(AppsSection.found(value)); allowed: allow, refuse")
                }
            case "api-keys": app.apiKeys = secrets(value, place: "\(place): api-keys", length: 1)
            case "administrators":
                app.administrators = secrets(value, place: "\(place): administrators", length: Self.tokenBytes)
            case let name: problems.append("\(place): " + Self.unknown(name ?? "", of: Self.keys))
            }
        }
        if app.buckets.isEmpty, app.otherBuckets == nil {
            problems.append("\(place): no bucket would be served: other-buckets: refuse needs buckets")
        }
        return app
    }

    private static func unknown(_ name: String, of known: [String]) -> String {
        guard unservedKeys.contains(name) else { return KnownWords.unknown("setting", name, of: known) }
        return "\(name) is not served (Spec/Simperium.md, section 14); allowed: \(known.joined(separator: ", "))"
    }

    /// - Parameter length: the least of each secret, in bytes.
    private mutating func secrets(_ node: Node, place: String, length: Int) -> SecretList {
        let files = node.sequence?.compactMap(\.scalar?.string) ?? []
        if files.isEmpty || files.count != node.sequence?.count {
            problems.append("\(place): \(AppsSection.found(node)); allowed: a list of files")
        }
        var secrets = SecretList(files: files)
        for file in files {
            do throws(InputError) {
                let text = try TextInput.text(ofFile: file)
                if let problem = secrets.add(text.utf8, length: length) { problems.append("\(file): \(problem)") }
            } catch {
                problems.append(error.description)
            }
        }
        return secrets
    }

    private mutating func settings(_ node: Node, place: String) -> BucketSettings {
        var settings = BucketSettings()
        guard let mapping = node.mapping else {
            problems.append("\(place): \(AppsSection.found(node)); allowed: {}, or like {form: flat}")
            return settings
        }
        for (key, value) in mapping {
            let name = key.scalar?.string ?? "", text = value.scalar?.string
            func refuse(_ allowed: String) {
                problems.append("\(place): \(name): \(AppsSection.found(value)); allowed: \(allowed)")
            }
            switch name {
            case "form":
                if let form = BucketForm.allCases.first(where: { $0.name == text }) {
                    settings.form = form
                } else {
                    refuse(BucketForm.allCases.map(\.name).joined(separator: ", "))
                }
            case "missing-sv":
                if text != "merge" && text != "refuse" { refuse("merge, refuse") }
                settings.mergesWithoutVersion = text == "merge"
            case "strict-deletes", "heal-node", "shared":
                if text != "true" && text != "false" { refuse("true, false") }
                switch name {
                case "heal-node": settings.healsNode = text == "true"
                case "shared": settings.isShared = text == "true"
                default: settings.deletesStrictly = text == "true"
                }
            case "entity-bytes":
                if let text, let count = UInt32(asPrinted: text).map(Int.init), Self.entityBytes.contains(count) {
                    settings.entityBytesMax = count
                } else {
                    refuse("a whole number from \(Self.entityBytes.lowerBound) to \(Self.entityBytes.upperBound)")
                }
            default: problems.append("\(place): " + Self.unknown(name, of: Self.bucketKeys))
            }
        }
        return settings
    }
}

extension SimperiumApp {
    /// The section as the configuration file has it.
    func lines(quoted: (String) -> String) -> [String] {
        var lines = ["other-buckets: \(otherBuckets == nil ? "refuse" : "allow")"]
        for (name, secrets) in [("api-keys", apiKeys), ("administrators", administrators)]
        where !secrets.files.isEmpty {
            lines.append("\(name): [\(secrets.files.map(quoted).joined(separator: ", "))]")
        }
        if !buckets.isEmpty { lines.append("buckets:") }
        for (name, bucket) in buckets.sorted(by: { $0.key < $1.key }) {
            let words = [
                "form: \(bucket.form.name)", "missing-sv: \(bucket.mergesWithoutVersion ? "merge" : "refuse")",
                "strict-deletes: \(bucket.deletesStrictly)", "entity-bytes: \(bucket.entityBytesMax)",
                "heal-node: \(bucket.healsNode)", "shared: \(bucket.isShared)",
            ]
            lines.append("  \(quoted(name)): {\(words.joined(separator: ", "))}")
        }
        return lines
    }
}
