import Foundation
public import Logging

/// Permissions by a file of rules, which is read again when it changes. The first rule that matches decides; a user who
/// matches no rule has no permission.
///
///     rules:
///       - path: '"public"'              # the partition value, in any spelling; here a string; * matches anything
///         right: read
///       - path: '"user=${user}"'        # with the ident of the user who asks
///         right: write
///       - path: '*'
///         app: my-app                   # optional: only in this app
///         users: [5f0c…, 5f0d…]         # optional: only these users
///         providers: [custom-token]     # optional: only users who logged in this way
///         data: {role: editor}          # optional: only users with these members in their custom data
///         right: write
public final class RuleFileAuthorizer: Authorizer {
    private let rules: WatchedFile<[PermissionRule]>

    /// Reads the file.
    /// - Throws: `FileError` with the mistake in the file.
    public init(path: String, logger: Logger) async throws {
        rules = try await WatchedFile(path, logger: logger) {
            guard let bytes = FileManager.default.contents(atPath: path),
                let text = String(validating: bytes, as: UTF8.self)
            else { throw FileError(path, "cannot be read as text in UTF-8") }
            do {
                return try PermissionRule.rules(inYAML: text)
            } catch let error as PermissionRuleError {
                throw FileError(path, error.description)
            } catch {
                throw FileError(path, YAMLMistake.line(error))
            }
        }
    }

    /// The reasons why rules have no effect, one line for each.
    package var notices: [String] { rules.current.compactMap(\.notice) }

    /// The apps that rules are limited to, by the numbers of the rules.
    package var apps: [(rule: Int, app: String)] {
        rules.current.enumerated().compactMap { number, rule in rule.app.map { (number + 1, $0) } }
    }

    /// The rules as sentences, in the order in which they are tried.
    package var words: [String] { PermissionRule.words(of: rules.current) }

    /// The permission of the first rule that matches; `none` if there is none.
    public func permission(for principal: Principal, on partition: [UInt8]) -> Permission {
        rule(for: principal, on: partition)?.rule.permission ?? .none
    }

    /// The number of the rule that decides.
    public func reason(for principal: Principal, on partition: [UInt8]) -> String {
        rule(for: principal, on: partition).map {
            "rule \($0.number) of the file of rules is the first one that matches"
        } ?? "no rule of the file of rules matches"
    }

    /// The first rule that matches, and its number; nil if there is none.
    func rule(for principal: Principal, on partition: [UInt8]) -> (number: Int, rule: PermissionRule)? {
        let question = PermissionQuestion(principal, partition), rules = rules.current
        return rules.firstIndex { $0.matches(question) }.map { ($0 + 1, rules[$0]) }
    }

    /// Reads the file again if it has changed. A file with a mistake changes nothing.
    public func refresh() async -> Bool { await rules.refresh() }
}
