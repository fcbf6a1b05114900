import NIOCore
import NIOHTTP1

@testable import AnabranchServer

/// A wire of the tests over HTTP: a number that clients add to, ask for, wait for and follow. It uses what every
/// further wire uses, and nothing else of the server.
final class CounterEndpoints: HTTPEndpoints {
    private struct State {
        var value = 0
        var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
        var waitCount = 0
        var cancelled: Set<Int> = []
    }

    private let state = Watched(State())

    var waitingCount: Int { state.withLock { $0.waiting.count } }
    var cancelledCount: Int { state.withLock { $0.cancelled.count } }

    func wait(forWaiting count: Int) async { await state.wait { $0.waiting.count >= count } }

    func waitForCancellation() async { await state.wait { !$0.cancelled.isEmpty } }

    func respond(to request: EndpointRequest) async -> EndpointResponse {
        switch (request.method, request.path) {
        case (.GET, "/counter"), (.HEAD, "/counter"):
            let value = state.withLock { $0.value }
            return EndpointResponse(
                status: .ok, headers: ["ETag": "\"\(value)\"", "Content-Type": "text/plain", "Content-Length": "9999"],
                body: .whole(Array("\(value)".utf8)))
        case (.POST, "/counter"):
            guard let number = Int(String(decoding: request.bytes, as: UTF8.self)) else {
                return EndpointResponse(status: .badRequest)
            }
            return EndpointResponse(status: .ok, contentType: "text/plain", text: "\(add(number))")
        case (.GET, "/counter/next"):
            guard request.hold(for: Principal(app: "toy", user: request.query)) else {
                return EndpointResponse(status: .serviceUnavailable)
            }
            await change()
            return EndpointResponse(status: .ok, contentType: "text/plain", text: "\(state.withLock { $0.value })")
        case (.GET, "/counter/all"):
            return EndpointResponse(status: .ok, body: .stream(EndpointStream(Values(of: self))))
        default: return EndpointResponse(status: .notFound)
        }
    }

    private func add(_ number: Int) -> Int {
        let (value, waiting) = state.withLock { state in
            state.value += number
            defer { state.waiting = [:] }
            return (state.value, state.waiting.values)
        }
        for continuation in waiting { continuation.resume() }
        return value
    }

    /// Returns when the number changes, or the task is cancelled.
    private func change() async {
        let number = state.withLock { state in
            state.waitCount += 1
            return state.waitCount
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isCancelled = state.withLock { state in
                    guard !state.cancelled.contains(number) else { return true }
                    state.waiting[number] = continuation
                    return false
                }
                if isCancelled { continuation.resume() }
            }
        } onCancel: {
            let continuation = state.withLock { state in
                state.cancelled.insert(number)
                return state.waiting.removeValue(forKey: number)
            }
            continuation?.resume()
        }
    }

    /// The number now and after each change, a line each.
    private struct Values: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let counter: CounterEndpoints
        var isFirst = true

        init(of counter: CounterEndpoints) { self.counter = counter }

        func makeAsyncIterator() -> Values { self }

        mutating func next() async throws -> ByteBuffer? {
            if !isFirst { await counter.change() }
            isFirst = false
            try Task.checkCancellation()
            return ByteBuffer(string: "\(counter.state.withLock { $0.value })\n")
        }
    }
}
