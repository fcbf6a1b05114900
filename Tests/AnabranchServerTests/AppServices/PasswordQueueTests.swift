import AnabranchCore
import Synchronization
import Testing

@testable import AnabranchServer

/// The order in which passwords are checked while many are tried.
@Suite struct PasswordQueueTests {
    /// Attempts in a queue with one thread, each of which is decided when the test says so.
    private final class Desk: Sendable {
        private struct State {
            var underWay: PasswordQueue.Attempt?
            var refused: [PasswordQueue.Attempt] = []
        }

        let queue: PasswordQueue
        private let state = Mutex(State())

        init(countMax: Int) { queue = PasswordQueue(countMax: countMax, runningMax: 1) }

        init(_ queue: PasswordQueue) { self.queue = queue }

        var underWay: PasswordQueue.Attempt? { state.withLock { $0.underWay } }

        var refused: [PasswordQueue.Attempt] { state.withLock { $0.refused } }

        func begin(_ attempt: PasswordQueue.Attempt, now: Int64 = 0) {
            queue.begin(attempt, now: now) { [self] isTurn in
                state.withLock { state in
                    if isTurn { state.underWay = attempt } else { state.refused.append(attempt) }
                }
            }
        }

        /// Decides the one that is under way.
        @discardableResult
        func end(wasRight: Bool = false) -> PasswordQueue.Attempt? {
            let attempt = state.withLock { state in
                defer { state.underWay = nil }
                return state.underWay
            }
            if let attempt { queue.end(attempt, wasRight: wasRight) }
            return attempt
        }
    }

    private static func attempt(_ address: String, _ account: String) -> PasswordQueue.Attempt {
        PasswordQueue.Attempt(address: address, account: account)
    }

    @Test("equals have their turns in the order in which they came, and the last of too many is refused")
    func equals() {
        let desk = Desk(countMax: 3), all = (0..<5).map { Self.attempt("a\($0)", "u\($0)") }
        for attempt in all { desk.begin(attempt) }
        #expect(desk.refused == Array(all[3...]))
        #expect((0..<3).map { _ in desk.end() } == all[..<3].map(Optional.some))
        #expect(desk.underWay == nil)
    }

    @Test("who waits with many comes after who waits with one")
    func oneAmongMany() {
        let desk = Desk(countMax: 4), ann = Self.attempt("b", "ann")
        for number in 0..<4 { desk.begin(Self.attempt("a", "u\(number)")) }
        desk.begin(ann)
        #expect(desk.refused == [Self.attempt("a", "u3")])
        desk.end()
        #expect(desk.underWay == ann)
    }

    @Test("wrong passwords are forgotten, half of them each minute", arguments: [(0, false), (59, false), (240, true)])
    func forgetting(seconds: Int64, isForgotten: Bool) {
        let desk = Desk(countMax: 9), eve = Self.attempt("a", "eve"), ann = Self.attempt("b", "ann")
        for _ in 0..<7 {
            desk.begin(eve)
            desk.end()
        }
        desk.begin(Self.attempt("c", "cat"), now: seconds)
        desk.begin(eve, now: seconds)
        desk.begin(ann, now: seconds)
        desk.end()
        #expect(desk.underWay == (isForgotten ? eve : ann))
    }

    @Test("a right password costs nothing")
    func rightPasswords() {
        let desk = Desk(countMax: 9), ann = Self.attempt("a", "ann")
        for _ in 0..<7 {
            desk.begin(ann)
            desk.end(wasRight: true)
        }
        desk.begin(Self.attempt("c", "cat"))
        desk.begin(ann)
        desk.begin(Self.attempt("b", "bob"))
        desk.end()
        #expect(desk.underWay == ann)
    }

    /// Whom a flood tries, in the number of each attempt, and from where.
    enum Flood: String, CaseIterable {
        case oneAccountFrom80Addresses, manyAccountsFrom80Addresses, theOwnersAccountFrom80Addresses
        case theOwnersAccountFromAnyAddress, anyAccountFromAnyAddress, anyAccountFromTheOwnersAddress

        func attempt(_ number: Int) -> PasswordQueue.Attempt {
            switch self {
            case .oneAccountFrom80Addresses: PasswordQueueTests.attempt("a\(number % 80)", "eve")
            case .manyAccountsFrom80Addresses: PasswordQueueTests.attempt("a\(number % 80)", "u\(number)")
            case .theOwnersAccountFrom80Addresses: PasswordQueueTests.attempt("a\(number % 80)", "ann")
            case .theOwnersAccountFromAnyAddress: PasswordQueueTests.attempt("a\(number)", "ann")
            case .anyAccountFromAnyAddress: PasswordQueueTests.attempt("a\(number)", "u\(number)")
            case .anyAccountFromTheOwnersAddress: PasswordQueueTests.attempt("home", "u\(number)")
            }
        }
    }

    /// Ann logs in now and then, by the first time before the flood; five wrong passwords come while one is checked.
    @Test("whatever a flood tries, the right password gets in", arguments: Flood.allCases)
    func floods(flood: Flood) {
        let desk = Desk(countMax: 256), ann = Self.attempt("home", "ann")
        desk.begin(ann)
        desk.end(wasRight: true)
        var number = 0, tried = 0, rightOnes = 0
        for tick in 0..<2_000 {
            let now = Int64(tick / 5)
            for _ in 0..<5 {
                desk.begin(flood.attempt(number), now: now)
                number += 1
            }
            if tick % 20 == 0 {
                desk.begin(ann, now: now)
                tried += 1
            }
            if desk.end(wasRight: desk.underWay == ann) == ann { rightOnes += 1 }
        }
        #expect(tried == 100)
        #expect(rightOnes >= 99)
    }

    /// Nobody knows her yet.
    @Test("a first login gets in as well", arguments: [Flood.oneAccountFrom80Addresses, .manyAccountsFrom80Addresses])
    func firstLogins(flood: Flood) {
        let desk = Desk(countMax: 64)
        var number = 0
        for tick in 0..<2_000 {
            for _ in 0..<5 {
                desk.begin(flood.attempt(number), now: 0)
                number += 1
            }
            let new = Self.attempt("home\(tick)", "ann\(tick)")
            if tick % 20 == 19 { desk.begin(new) }
            desk.end()
            if tick % 20 == 19, tick > 200 { #expect(desk.underWay == new) }
        }
        #expect(!desk.refused.isEmpty && desk.refused.allSatisfy { !$0.account.hasPrefix("ann") })
    }

    /// Else whoever registers addresses, also those of others, would come before everybody who is new.
    @Test func aPasswordThatIsChosenIsNoRightOne() async throws {
        try await AppServicesRig.run { rig async throws in
            let register = "/api/client/v2.0/app/demo/auth/providers/local-userpass/register"
            for status in [201, 409] {
                let body: JSONValue = ["email": "eve@example.com", "password": "correct horse"]
                #expect(try await rig.post(register, body).status == status)
            }
            let queue = rig.services.passwordQueue, desk = Desk(queue), now = rig.services.now
            let eve = AppServices.attempt("eve@example.com", in: "demo", from: "127.0.0.1")
            let wrong = Self.attempt(eve.address, "u"), ann = Self.attempt("b", "ann")
            let busy = (0..<PasswordHash.threadCount).map { Self.attempt("a\($0)", "u\($0)") }
            desk.begin(wrong, now: now)
            desk.end()
            for attempt in busy + [eve, ann] { desk.begin(attempt, now: now) }
            queue.end(busy[0], wasRight: true)
            #expect(desk.underWay == ann)
            for attempt in busy.dropFirst() + [ann, eve] { queue.end(attempt, wasRight: true) }
        }
    }

    /// All threads are busy with the first, and the queue is full of wrong passwords.
    @Test(.timeLimit(.minutes(30))) func aServerLetsTheRightPasswordIn() async throws {
        var settings = AppServicesRig.development
        settings.passwordsUnderWayMax = 8
        try await AppServicesRig.run(settings, passwordCost: 8) { rig async throws in
            _ = try await rig.newUser("ann@example.com")
            let login = "/api/client/v2.0/app/demo/auth/providers/local-userpass/login"
            let statuses = try await withThrowingTaskGroup(of: (isRight: Bool, status: Int).self) { group in
                for number in 0..<200 {
                    let isRight = number % 50 == 49
                    group.addTask {
                        let password: JSONValue = isRight ? "correct horse" : "wrong horse"
                        let name = isRight ? "ann@example.com" : "user \(number)"
                        return (
                            isRight,
                            try await rig.post(login, ["username": .string(name), "password": password]).status
                        )
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.filter(\.isRight).map(\.status) == Array(repeating: 200, count: 4))
            #expect(statuses.allSatisfy { $0.isRight || [401, 429].contains($0.status) })
        }
    }
}
