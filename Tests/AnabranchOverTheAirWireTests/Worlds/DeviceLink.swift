import AnabranchClient
import AnabranchServer
import NIOHTTP1
import Synchronization

@testable import AnabranchOverTheAirWire

/// The way of a device's messages to the server, without a network: it may be cut at a message, before it at odd
/// numbers, or after it, so that its answer is lost.
final class DeviceLink: HTTPSender {
    /// True if each message comes twice.
    let repeats: Bool
    private let rig: DeviceRig
    private let cutAt: Int?
    private let state = Mutex<(messages: Int, isCut: Bool, problem: String?)>((0, false, nil))

    init(_ rig: DeviceRig, cutAt: Int?, repeats: Bool) {
        (self.rig, self.cutAt, self.repeats) = (rig, cutAt, repeats)
    }

    var isCut: Bool { state.withLock { $0.isCut } }
    var problem: String? { state.withLock { $0.problem } }

    func send(_ request: HTTPCall) async throws -> HTTPAnswer {
        let number = state.withLock { state in
            state.messages += 1
            return state.messages
        }
        if let cutAt, 2 * number - 1 >= cutAt { throw cut() }
        let answer = try await ask(request)
        if repeats, try await ask(request).body != answer.body {
            state.withLock { $0.problem = "a repeated message has another answer" }
        }
        if 2 * number == cutAt { throw cut() }
        return answer
    }

    private func cut() -> AppError {
        state.withLock { $0.isCut = true }
        return AppError(.noAnswer, "cut")
    }

    private func ask(_ request: HTTPCall) async throws -> HTTPAnswer {
        var headers: HTTPHeaders = [:]
        for (name, value) in request.headers { headers.add(name: name, value: value) }
        guard let settings = rig.wire.settings.apps[DeviceRig.app] else { throw CancellationError() }
        let response = await OverTheAirEndpoints(rig.wire, app: DeviceRig.app, settings).respond(
            to: EndpointRequest(method: .POST, path: settings.url, headers: headers, body: .whole(request.body)))
        guard case .whole(let bytes) = response.body else { throw CancellationError() }
        return HTTPAnswer(
            status: Int(response.status.code), body: bytes,
            headers: response.headers.map { (name: $0.name, value: $0.value) })
    }
}
