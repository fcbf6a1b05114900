import AnabranchCore
import AnabranchHistory
import Foundation
import Logging
import Yams

/// Rights by a file of rules, read again when it changes. The first rule that fits decides; if none does there is no
/// right.
///
///     rules:
///       - path: '"public"'              # the partition value as clients send it, here a text; * is anything
///         right: read
///       - path: '"user=${user}"'        # with the ident of the user who asks
///         right: write
///       - path: '*'
///         app: my-app                   # optional: only in this app
///         users: [5f0c…, 5f0d…]         # optional: only these users
///         providers: [custom-token]     # optional: only who logged in like this
///         data: {role: editor}          # optional: only with these members in the custom data
///         right: write
public final class RightsFile: Rights {
    private let rules: WatchedFile<[RightsRule]>

    /// - Throws: `FileError` that names what is wrong in the file.
    public init(path: String, logger: Logger) async throws {
        rules = try await WatchedFile(path, logger: logger) {
            do {
                return try RightsRule.rules(inYAML: String(contentsOfFile: path, encoding: .utf8))
            } catch let error as RightsRule.Mistake {
                throw FileError(path, error.description)
            } catch {
                throw FileError(path, "no YAML: \(error)")
            }
        }
    }

    public func right(of member: Member, to partition: [UInt8]) -> Right {
        rules.current.first { $0.fits(member, partition) }?.right ?? .none
    }

    public func refresh() async -> Bool { await rules.refresh() }
}

/// One rule of the file.
struct RightsRule: Equatable, Sendable {
    /// What is wrong in a text of rules.
    struct Mistake: Error, Equatable, CustomStringConvertible {
        let description: String
    }

    var path: PathPattern
    var app: String?
    var users: Set<String>?
    var providers: Set<String>?
    var data: [String: JSONValue] = [:]
    var right: Right

    func fits(_ member: Member, _ partition: [UInt8]) -> Bool {
        if let app, app != member.app { return false }
        if let users, !users.contains(member.user ?? "") { return false }
        if let providers, !providers.contains(member.provider ?? "") { return false }
        if !data.isEmpty {
            let members = (try? JSONValue(parsing: member.customData.utf8))?.object ?? [:]
            guard data.allSatisfy({ members[$0.key] == $0.value }) else { return false }
        }
        return path.matches(partition, user: member.user)
    }

    // MARK: Reading

    static func rules(inYAML text: String) throws -> [RightsRule] {
        guard let root = try Yams.compose(yaml: text)?.mapping, root.count == 1,
            let entries = root["rules"]?.sequence
        else { throw Mistake(description: "the file has to be a list of `rules`") }
        return try entries.enumerated().map { number, node in try RightsRule(node, "rule \(number + 1)") }
    }

    private init(_ node: Node, _ place: String) throws {
        guard let mapping = node.mapping else { throw Mistake(description: "\(place): no keys") }
        var path: PathPattern?
        var right: Right?
        for (key, value) in mapping {
            let name = key.scalar?.string ?? ""
            let wrong = Mistake(description: "\(place): \(name): cannot be this")
            switch name {
            case "path":
                guard let pattern = value.scalar.flatMap({ PathPattern($0.string) }) else { throw wrong }
                path = pattern
            case "right":
                guard let word = value.scalar.flatMap({ Right(rawValue: $0.string) }) else { throw wrong }
                right = word
            case "app":
                guard let word = value.scalar?.string else { throw wrong }
                app = word
            case "users": users = try Self.words(value, wrong)
            case "providers": providers = try Self.words(value, wrong)
            case "data": data = try Self.data(value, wrong)
            default: throw Mistake(description: "\(place): there is no key '\(name)'")
            }
        }
        guard let path, let right else { throw Mistake(description: "\(place): path and right have to be there") }
        self.path = path
        self.right = right
    }

    private static func words(_ node: Node, _ wrong: Mistake) throws -> Set<String> {
        guard let words = node.sequence?.map({ $0.scalar?.string }), !words.contains(nil) else { throw wrong }
        return Set(words.compactMap { $0 })
    }

    /// Plain words that mean numbers and flags in YAML mean them here.
    private static func data(_ node: Node, _ wrong: Mistake) throws -> [String: JSONValue] {
        var data: [String: JSONValue] = [:]
        for (key, value) in node.mapping ?? [:] {
            guard let name = key.scalar?.string, value.scalar != nil else { throw wrong }
            data[name] =
                value.bool.map { .bool($0) } ?? value.int.map { .integer(Int64($0)) }
                ?? value.string.map { .string($0) }
        }
        guard !data.isEmpty else { throw wrong }
        return data
    }
}
