package import AnabranchCore
package import AnabranchHistory
import AnabranchProtocol
import AnabranchRules

/// The permissions of a user on a synced file, as sync decides them, and what has decided.
package struct UserAccess: Sendable {
    /// The permission of a user of partition-based sync who has logged in by one provider.
    package struct OnPartition: Sendable {
        /// Nil if the server does not know how the user comes.
        package let provider: String?
        package let permission: Permission
        /// The number and the text of the rule that has decided; nil if none has.
        package let rule: (number: Int, text: String)?
        /// The reason for the permission, in words.
        package let reason: String
    }

    package enum Decision: Sendable {
        /// One permission for each way to log in.
        case partition([OnPartition])
        /// Roles decide for each object.
        case flexible(RolesOfUser)
        /// The reason why no client of the user can open the file, in words.
        case refused(String)
    }

    /// The name of the user: the owner of client files.
    package let user: String
    package let decision: Decision
    /// Reasons why fewer may come, or see less, than the decision says: in words.
    package var notes: [String] = []

    /// The objects of a flexible file that the user may read; nil if roles do not decide.
    package var sight: Sight? { sight(asking: nil) }

    /// - Parameter predicates: the queries of one of the user's clients; nil for everything that the user may read.
    package func sight(asking predicates: Predicates?) -> Sight? {
        guard case .flexible(let roles) = decision else { return nil }
        return Sight(by: roles.rules, asking: predicates)
    }

    /// True if the user sees nothing of the file.
    package var isRefused: Bool {
        switch decision {
        case .partition(let permissions): permissions.allSatisfy { $0.permission == .none }
        case .flexible: false
        case .refused: true
        }
    }
}

/// The roles of a user in an app of flexible sync.
package struct RolesOfUser: Sendable {
    fileprivate let export: AppExport?
    fileprivate let user: RuleUser?
    fileprivate let rules: UserRules

    /// True if there are no rules: everybody may do everything.
    package var areMissing: Bool { export == nil }

    /// True if the user may change an object as it is, and delete it.
    package func rights(
        on object: StateObject, of schema: ClassSchema, in state: ObjectGraph
    ) throws -> (change: Bool, delete: Bool) {
        try rules.role(for: schema, of: state).rights(on: object, in: state)
    }

    /// The fields that the roles of a class name.
    package func fields(ofClass name: String) -> Set<String> { export?.rules.fields(ofClass: name) ?? [] }

    /// The role that applies to the user for the objects of a class, those that were tried before it, and its
    /// conditions with the user's data filled in.
    package func json(of schema: ClassSchema, in state: ObjectGraph) -> JSONValue {
        let name = String(decoding: schema.name, as: UTF8.self)
        let tried = user.flatMap { user in export?.rules.triedRoles(ofClass: name, for: user) } ?? []
        return [
            "class": .string(name), "role": tried.last { $0.applies }.map { .string($0.name) } ?? .null,
            "default_rule": .bool(export.map { !$0.rules.hasOwnRoles(ofClass: name) } ?? false),
            "tried": .array(
                tried.map {
                    [
                        "name": .string($0.name), "applies": .bool($0.applies),
                        "source": (try? JSONValue(parsing: $0.source.utf8)) ?? .null,
                    ]
                }),
            "permissions": rules.json(ofClass: name),
            "problem": rules.problem(for: schema, of: state).map { .string($0) } ?? .null,
        ]
    }
}

extension AdminAccess {
    /// The permissions of a user on a synced file.
    /// - Returns: nil if there is no such user.
    package func access(of user: String, to path: VirtualPath) async -> UserAccess? {
        let app = path.app, modes = endpoints.server.modes
        let account: User?, mode: SyncMode?
        do throws(HTTPError) {
            // Both may read a store.
            (account, mode) = try await endpoints.accounts { accounts throws(AccountError) in
                (try accounts.user(user), modes.mode(ofApp: app))
            }
        } catch { return UserAccess(user: user, decision: .refused("the accounts cannot be read now")) }
        let services = authenticator as? AppServices
        guard let account else {
            guard services == nil || services?.settings.userWithoutToken == user else { return nil }
            return UserAccess(
                user: user, decision: decision(for: [Principal(app: app, user: user)], on: path, mode),
                notes: [
                    "The user has no account: clients without a token come as this user, and nothing else is known."
                ])
        }
        guard account.app == app else {
            var reason = "the user belongs to the app \(account.app), the file to another one"
            if let services, services.settings.apps[exactly: app] == nil {
                let text = String(decoding: path.partition ?? path.bytes[...], as: UTF8.self)
                let isJSON = (try? JSONValue(parsing: text.utf8)) != nil
                reason += "; did you mean '\(account.app)/\(isJSON ? text : "\"\(text)\"")'?"
            }
            return UserAccess(user: user, decision: .refused(reason))
        }
        var notes: [String] = []
        if account.isDisabled { notes.append("The user is disabled: no client can connect until that ends.") }
        let forks = services?.settings.apps[exactly: app]?.forks ?? [:]
        if !forks.isEmpty { notes.append("Tokens of the app's issuer can allow less, or more, than this.") }
        let principals = account.identities.map { identity in
            var principal = AppServices.principal(of: account, by: identity.provider, login: "")
            if !forks.isEmpty, identity.provider == Provider.customToken.rawValue { principal.subject = identity.name }
            return principal
        }
        return UserAccess(user: user, decision: decision(for: principals, on: path, mode), notes: notes)
    }

    private func decision(
        for principals: [Principal], on path: VirtualPath, _ mode: SyncMode?
    ) -> UserAccess.Decision {
        if path.partition != nil, mode == .flexible {
            return .refused("\(path.app) is an app of flexible sync; its only file is \(path.app)")
        }
        if path.partition == nil, mode == .partition {
            return .refused(#"\#(path.app) is an app with partitions; name one, as in \#(path.app)/"a""#)
        }
        guard path.partition != nil else {
            // The name that an issuer gives counts, whatever other ways to log in there are.
            guard let principal = principals.first(where: { $0.subject != nil }) ?? principals.last else {
                return .refused("the user has no way to log in")
            }
            let export = endpoints.server.files.environment.options.export(path)
            return .flexible(
                RolesOfUser(
                    export: export, user: RuleUser(principal),
                    rules: export.map { $0.rules(of: principal) } ?? .everything))
        }
        return .partition(principals.map { permission(of: $0, on: path) })
    }

    private func permission(of principal: Principal, on path: VirtualPath) -> UserAccess.OnPartition {
        let partition = Array(path.canonical.partition ?? [])
        let permission = authorizer.permission(for: principal, on: partition)
        let rule = (authorizer as? RuleFileAuthorizer)?.rule(for: principal, on: partition)
        return UserAccess.OnPartition(
            provider: principal.provider, permission: permission, rule: rule.map { ($0.number, $0.rule.text) },
            reason: authorizer.reason(for: principal, on: partition))
    }
}
