import NIOCore
import NIOHTTP1

extension HTTPHandler {
    /// A request whose body is collected.
    final class Collected {
        let head: HTTPRequestHead
        let route: HTTPRoute
        let bytesMax: Int
        var body = ByteBuffer()
        /// The memory for a long body; it is kept until the request is answered.
        var room = Room.unneeded

        enum Room {
            case unneeded
            case waiting(MemoryWait)
            case permitted(MemoryPermit)
        }

        init(head: HTTPRequestHead, route: HTTPRoute, bytesMax: Int) {
            (self.head, self.route, self.bytesMax) = (head, route, bytesMax)
        }
    }

    /// An answer that is being made or sent.
    final class Answer {
        var isLast: Bool
        /// True if only the head of the response was requested.
        let isHead: Bool
        /// The memory of the request's body.
        let room: Collected.Room
        /// Succeeds when the client has been answered, or will not be.
        let end: EventLoopPromise<Void>
        var task: Task<Void, Never>?
        /// True if a shutdown does not wait for it.
        var isLong = false

        init(_ head: HTTPRequestHead, room: Collected.Room, on eventLoop: any EventLoop) {
            isLast = HTTPHandler.isLast(head)
            isHead = head.method == .HEAD
            self.room = room
            end = eventLoop.makePromise()
        }
    }
}
