@testable import AnabranchServer

/// A wire of the tests over text messages: a number that clients add to and follow. It uses what every further wire
/// uses, and nothing else of the server.
///
/// A client says `add N`, and all are told `= N`; `echo TEXT` and `make N` (so many bytes of text) are answered with
/// one message, `user NAME` with `yes` or a close frame, and `bye TEXT` with the text and the end. Anything else is
/// ignored.
final class CounterWire: TextWire {
    private struct State {
        var value = 0
        var sockets: [ObjectIdentifier: TextSocket] = [:]
    }

    let settings: TextWireSettings
    private let state = Watched(State())

    init(_ settings: TextWireSettings = TextWireSettings()) { self.settings = settings }

    /// The number of sockets that are served.
    var count: Int { state.withLock { $0.sockets.count } }

    /// Returns once so many are.
    func wait(forSockets count: Int) async { await state.wait { $0.sockets.count == count } }

    func admits(_ request: SocketRequest) -> Bool { request.path == "/counter" }

    func serve(_ socket: TextSocket) async {
        state.withLock { $0.sockets[ObjectIdentifier(socket)] = socket }
        defer { state.withLock { $0.sockets[ObjectIdentifier(socket)] = nil } }
        while let event = await socket.next() {
            guard case .text(let text) = event else {
                guard await socket.send("= \(state.withLock { $0.value })") else { return }
                continue
            }
            guard await answer(text, on: socket) else { return }
        }
    }

    /// - Returns: false at the end.
    private func answer(_ text: String, on socket: TextSocket) async -> Bool {
        let words = text.split(separator: " ", maxSplits: 1)
        let argument = words.count > 1 ? String(words[1]) : ""
        switch words.first {
        case "add":
            let sockets = state.withLock { state in
                state.value += Int(argument) ?? 0
                return state.sockets.values
            }
            for socket in sockets { socket.wake() }
        case "echo": return await socket.send(argument)
        case "make":
            let bytes = Int(argument) ?? 0
            return await socket.send(bytesMax: bytes) { Self.text(ofBytes: bytes) }
        case "user":
            guard socket.count(for: Principal(app: "toy", user: argument)) else {
                socket.close(code: 1013, reason: "too many")
                return true
            }
            return await socket.send("yes")
        case "bye":
            _ = await socket.send(argument)
            return false
        default: break
        }
        return true
    }

    /// A text with characters of one to four bytes.
    static func text(ofBytes count: Int) -> String {
        String(repeating: "aé€😀", count: count / 10) + String(repeating: "z", count: count % 10)
    }
}
