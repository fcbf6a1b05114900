import AnabranchHistory
import AnabranchRules
import AnabranchServer
import AnabranchTesting
import Synchronization

/// The source of salts.
final class SimulatedSalts: Sendable {
    private let random: Mutex<SeededRandom>

    init(seed: UInt64) { random = Mutex(SeededRandom(seed: seed)) }

    func next() -> SeededRandom { random.withLock { SeededRandom(seed: $0.next()) } }
}

/// The permissions of users, as they are now.
final class SimulatedPermissions: Authorizer {
    private struct State {
        var users: [String: Permission] = [:]
        var answer: Permission?
    }

    private let state = Mutex(State())

    func permission(for principal: Principal, on partition: [UInt8]) -> Permission {
        guard let user = principal.user else { return .none }
        return state.withLock { state in
            let permission = state.users[user] ?? (user == HostileClient.user ? .read : .write)
            state.answer = permission
            return permission
        }
    }

    func set(_ permission: Permission, of user: String) { state.withLock { $0.users[user] = permission } }

    /// The last answer since this was called last; nil if nobody has asked.
    func takeAnswer() -> Permission? { state.withLock { $0.answer.take() } }

    func refresh() async -> Bool { false }
}

/// The app's roles, which decide what users of flexible sync may do: everything, while there are none.
final class SimulatedRoles: Sendable {
    private let current = Mutex<AppExport?>(nil)

    private static let everything = role("{}", read: "true", write: "true")

    var export: AppExport? { current.withLock { $0 } }

    /// - Returns: the new roles. Once an app has roles, it always has some.
    func change(_ random: inout SeededRandom) throws -> String {
        guard !random.isOne(in: 4) else { return try set(Self.everything, board: Self.everything) }
        let first = Self.role(random.pick(["{}", #"{"%%user.id": {"$ne": "user1"}}"#]), &random)
        let roles = random.isOne(in: 2) ? first : first + ", " + Self.role("{}", &random)
        return try set(roles, board: Self.role("{}", read: "true", write: random.pick(["true", "true", "false"])))
    }

    /// Allows everybody everything.
    func allowAll() throws { _ = try set(Self.everything, board: Self.everything) }

    private func set(_ roles: String, board: String) throws -> String {
        let place = #""collection": "\#(CountedWrites.board)", "database": "\#(Simulation.app)""#
        let export = try AppExport(files: [
            AppFile(path: "data_sources/m/default_rule.json", bytes: #"{"roles": [\#(roles)]}"#.utf8),
            AppFile(path: "data_sources/m/sim/Board/rules.json", bytes: #"{\#(place), "roles": [\#(board)]}"#.utf8),
        ])
        current.withLock { $0 = export }
        return roles + ", board " + board
    }

    func rules(of user: Principal) throws -> UserRules {
        guard let export else { return .everything }
        return export.rules.rules(for: try RuleUser(id: user.user ?? "", customData: user.customData))
    }

    private static func role(_ applyWhen: String, _ random: inout SeededRandom) -> String {
        let conditions = [
            "true", "true", "false", #"{"owner": "%%user.custom_data.number"}"#, #"{"count": {"$gt": 0}}"#,
            #"{"text": ""}"#,
        ]
        return role(applyWhen, read: random.pick(conditions), write: random.pick(conditions))
    }

    private static func role(_ applyWhen: String, read: String, write: String) -> String {
        """
        {"name": "r", "apply_when": \(applyWhen), "document_filters": {"read": \(read), "write": \(write)}, \
        "read": true, "write": true, "insert": true, "delete": true}
        """
    }
}
