import NIOCore
import NIOEmbedded
import Testing

@testable import AnabranchServer

@Suite struct UserTurnsTests {
    private let turns = UserTurns()
    private let loop = EmbeddedEventLoop()

    @Test func theConnectionsOfAUserShareTheTurnUntilTheLastOneIsOver() throws {
        let ends = (0..<2).map { _ in loop.makePromise(of: Void.self) }
        let shared = ends.map { turns.turns(of: "a/u", until: $0.futureResult) }
        #expect(shared[0] === shared[1])
        let turn = shared[0].permit(for: 1)
        #expect(turn != nil && shared[1].permit(for: 1) == nil)
        for count in [1, 0] {
            #expect(turns.count == 1)
            ends[count].succeed()
        }
        #expect(turns.count == 0)
    }

    @Test(arguments: [("a/v", true), ("b/u", true), (nil, true), ("a/u", false)])
    func usersDoNotWaitForEachOther(other: String?, hasItsOwn: Bool) {
        let end = loop.makePromise(of: Void.self)
        let first = turns.turns(of: "a/u", until: end.futureResult).permit(for: 1)
        #expect((turns.turns(of: other, until: end.futureResult).permit(for: 1) != nil) == hasItsOwn)
        end.succeed()
        withExtendedLifetime(first) {}
    }

    @Test func usersWhomNobodyKnowsDoNotWait() {
        let all = turns.turns(of: nil, until: loop.makeSucceededVoidFuture())
        let permits = (0..<3).map { _ in all.permit(for: 1) }
        #expect(permits.allSatisfy { $0 != nil } && turns.count == 0)
    }

    @Test(arguments: [("u", "a/u"), (nil, nil)]) func aUserIsNamedWithTheApp(user: String?, name: String?) {
        #expect(Principal(app: "a", user: user).qualifiedName == name)
    }
}
