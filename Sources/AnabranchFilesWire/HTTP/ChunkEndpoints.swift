import AnabranchChunks
import AnabranchCore
import AnabranchHistory
import AnabranchServer
import Logging
import NIOCore
import NIOHTTP1
import Synchronization

/// Chunks over HTTP (`Spec/Files.md`, section 3). For a route with the prefix `/files` that takes bodies as streams.
struct ChunkEndpoints: HTTPEndpoints {
    /// How many chunks one request may ask for.
    static let hashesMax = 1_000

    private let wire: FilesWire

    init(_ wire: FilesWire) { self.wire = wire }

    func respond(to request: EndpointRequest) async -> EndpointResponse {
        let body = RequestParts(request.body)
        do {
            let space = try await open(request), target = try Self.target(of: request.path)
            switch (request.method, target) {
            case (.PUT, .chunk(let chunk)): return try await space.put(chunk, request.headers, body)
            case (.GET, .chunk(let chunk)), (.HEAD, .chunk(let chunk)): return try await space.get(chunk, request)
            case (.POST, .missing): return try await space.missing(body)
            default: throw ChunkRefusal(.methodNotAllowed, "the method is not allowed here")
            }
        } catch let refusal as ChunkRefusal {
            await body.drain()
            return refusal.response
        } catch let error as ChunkError {
            await body.drain()
            return switch error {
            case .diskFull: ChunkRefusal.diskFull.response
            case .wrongContent:
                ChunkRefusal(.unprocessableEntity, "the bytes are not those of the hash in the path").response
            }
        } catch {
            if !(error is EndpointStreamError || error is CancellationError) {
                wire.logger.warning("files: a request fails", metadata: ["reason": "\(error)"])
            }
            return ChunkRefusal(.serviceUnavailable, "try again later").response
        }
    }

    private enum Target {
        case chunk(ChunkHash)
        case missing
    }

    /// - Parameter path: `/files/APP/chunks/…`
    private static func target(of path: String) throws(ChunkRefusal) -> Target {
        let parts = path.split(separator: "/")
        guard parts.count == 4, parts[2] == "chunks" else { throw .notFound }
        if parts[3] == "missing" { return .missing }
        guard let hash = ChunkHash(hex: parts[3]) else {
            throw ChunkRefusal(.badRequest, "a chunk is named by its SHA-256, in 64 lower-case hexadecimal digits")
        }
        return .chunk(hash)
    }

    /// Finds the synced file of a request, after checking its token.
    private func open(_ request: EndpointRequest) async throws(ChunkRefusal) -> ChunkSpace {
        let parts = request.path.split(separator: "/")
        guard parts.count > 1, parts[0] == "files" else { throw .notFound }
        guard let app = wire.settings.apps[exactly: String(parts[1])] else { throw .noFileSpace }
        let principal: Principal
        switch await wire.authenticator.admit(request.credentials(for: String(parts[1]))) {
        case .admitted(let admitted): principal = admitted
        case .tokenRefused: throw ChunkRefusal(.unauthorized, "the token has ended or is unknown")
        case .userRefused: throw ChunkRefusal(.forbidden, "no entry")
        case .unavailable: throw ChunkRefusal(.serviceUnavailable, "try again later")
        }
        let names = request.query.split(separator: "&").filter { $0.hasPrefix("path=") }
        guard names.count == 1, let text = Hex.percentDecoded(names[0].dropFirst(5).utf8),
            let partition = PartitionValue(extendedJSON: text)
        else {
            throw ChunkRefusal(.badRequest, "?path= has to name a partition in extended JSON, as %22notes%22")
        }
        let permission = wire.authorizer.permission(for: principal, on: partition.bytes)
        // Nobody learns which partitions there are.
        guard permission >= .read else { throw .notFound }
        return ChunkSpace(
            wire: wire, app: app, path: VirtualPath(app: String(parts[1]), partition: partition),
            user: principal.user ?? "", isWritable: permission >= .write)
    }
}

/// The body of a request, which can be read once.
final class RequestParts: Sendable {
    private let parts: Mutex<EndpointStream?>

    init(_ body: EndpointBody) {
        if case .stream(let stream, _) = body { parts = Mutex(stream) } else { parts = Mutex(nil) }
    }

    /// The parts, at the first call; nil afterwards.
    func take() -> EndpointStream? { parts.withLock { $0.take() } }

    /// Reads the body unless somebody has begun to, so that the client gets to reading the answer.
    func drain() async {
        guard let parts = take() else { return }
        do { for try await _ in parts {} } catch {}
    }
}

/// The refusal of a request: a status, and the reason in words.
struct ChunkRefusal: Error {
    let status: HTTPResponseStatus
    let reason: String
    /// Nil for a refusal of a file space.
    private let code: String?

    init(_ status: HTTPResponseStatus, _ reason: String, code: String? = nil) {
        self.status = status
        self.reason = reason
        self.code = code
    }

    static let notFound = ChunkRefusal(.notFound, "there is no such thing, or you may not read it")
    static let noFileSpace = ChunkRefusal(.notFound, "the app has no file spaces here", code: "NoFileSpace")
    static let diskFull = ChunkRefusal(.insufficientStorage, "the disk of the server is full")

    var response: EndpointResponse {
        var members: [String: JSONValue] = ["error": .string(reason)]
        if let code { members["error_code"] = .string(code) }
        return EndpointResponse(status: status, text: JSONValue.object(members).encoded)
    }
}
