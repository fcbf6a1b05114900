import AnabranchCore
@testable import AnabranchProtocol
import NIOCore
import Testing

@testable import AnabranchServer

/// When an event loop is told that there is something for a connection.
@Suite struct ReplyQueueTests {
    private static let reply = FileReply(
        session: SessionKey(connection: ConnectionID(number: 1), session: SessionHandle(ident: 1, serial: 1)),
        event: .versionExposed(1))

    @Test func requestsThatAreDoneAreToldWhenTheyAreMuch() {
        let queue = ReplyQueue(quietBytesMax: 1_000)
        #expect(!queue.append(done: 600) && !queue.append(done: 400))
        #expect(queue.append(done: 1))
        #expect(!queue.append(done: 1), "it is told already")
        #expect(queue.drain().doneBytes == 1_002)
        #expect(queue.drain().doneBytes == 0)
        #expect(!queue.append(done: 1_000) && queue.append(done: 1))
    }

    @Test func repliesAreToldAtOnceTogetherWithWhatIsDone() {
        let queue = ReplyQueue(quietBytesMax: 1_000)
        #expect(!queue.append(done: 7) && queue.append(Self.reply) && !queue.append(Self.reply))
        let waiting = queue.drain()
        #expect(waiting.doneBytes == 7 && waiting.replies.count == 2)
    }

    @Test func aConnectionThatEndsIsToldEverything() {
        let queue = ReplyQueue(quietBytesMax: 1_000)
        queue.notifyOfAll()
        #expect(queue.append(done: 1))
    }

    /// Else a connection could wait for ever for something that is done.
    @Test(arguments: [0, 1, 2, 1_000]) func aConnectionThatWaitsIsToldBeforeItsLastRequestIsDone(waitingBytesMax: Int) {
        let queue = ReplyQueue(quietBytesMax: waitingBytesMax / 2)
        var waitingBytes = waitingBytesMax + 1
        for _ in 0...waitingBytesMax where queue.append(done: 1) { waitingBytes -= queue.drain().doneBytes }
        #expect(waitingBytes <= waitingBytesMax / 2)
    }
}
