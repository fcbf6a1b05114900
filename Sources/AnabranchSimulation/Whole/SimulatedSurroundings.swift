import AnabranchHistory
import AnabranchServer
import AnabranchTesting
import Synchronization

/// How long steps of turns are: over at once, or never.
final class SimulatedSteps: Sendable {
    private let state: Mutex<(random: SeededRandom, areShort: Bool)>

    init(seed: UInt64) { state = Mutex((SeededRandom(seed: seed), true)) }

    var areShort: Bool {
        get { state.withLock { $0.areShort } }
        set { state.withLock { $0.areShort = newValue } }
    }

    func begin() -> StepLimit {
        let isShort = state.withLock { $0.areShort && $0.random.isOne(in: 2) }
        return isShort ? StepLimit(asking: { true }, piece: 1) : .none
    }
}

/// Where salts come from.
final class SimulatedSalts: Sendable {
    private let random: Mutex<SeededRandom>

    init(seed: UInt64) { random = Mutex(SeededRandom(seed: seed)) }

    func next() -> SeededRandom { random.withLock { SeededRandom(seed: $0.next()) } }
}

/// What users may do.
final class SimulatedPermissions: Authorizer {
    private let users = Mutex<[String: Permission]>([:])

    func permission(for principal: Principal, on partition: [UInt8]) -> Permission {
        guard let user = principal.user else { return .none }
        return users.withLock { $0[user] ?? (user == HostileClient.user ? .read : .write) }
    }

    func set(_ permission: Permission, of user: String?) { if let user { users.withLock { $0[user] = permission } } }

    func allowAll() { users.withLock { $0 = [:] } }

    func refresh() async -> Bool { false }
}
