import AnabranchChunks
public import AnabranchClient
public import AnabranchCore
import Foundation

/// Where the contents of a space are kept: a server, an app of it, and a partition (`Spec/Files.md`, section 3).
public struct FileService: Sendable {
    /// The longest answer that a sender has to take, in bytes.
    public static let answerBytesMax = Manifest.chunkBytes + 1_024

    private let app: String
    private let base: String
    private let query: String
    private var sender: any HTTPSender
    /// A token for the next request; a new one, if the last was refused. Nil if the server asks for none.
    private let token: @Sendable (_ isRefused: Bool) async throws -> String?

    /// A server that lets clients in without a token, or always with the same.
    /// - Parameters:
    ///   - server: scheme, host and port, as `https://sync.example.com`; `ws` and `wss` stand for `http` and `https`.
    ///   - partition: the partition that the store syncs.
    ///   - sender: sends the requests; it has to accept answers of `answerBytesMax`.
    public init(
        server: String, app: String, partition: PartitionValue, token: String? = nil,
        sender: (any HTTPSender)? = nil
    ) {
        self.init(server, app, partition, sender) { _ in token }
    }

    /// The server of a user of an app.
    /// - Parameters:
    ///   - user: the id of a user who is logged in.
    ///   - partition: the partition that the store syncs.
    ///   - sender: sends the requests; it has to accept answers of `answerBytesMax`.
    public init(_ app: AppClient, user: String, partition: PartitionValue, sender: (any HTTPSender)? = nil) {
        self.init(app.baseURL, app.appID, partition, sender) { isRefused in
            isRefused ? try await app.refreshAccessToken(of: user) : try await app.accessToken(of: user)
        }
    }

    private init(
        _ server: String, _ app: String, _ partition: PartitionValue, _ sender: (any HTTPSender)?,
        token: @escaping @Sendable (Bool) async throws -> String?
    ) {
        var server = server.hasPrefix("ws") ? "http" + server.dropFirst(2) : server
        while server.hasSuffix("/") { server.removeLast() }
        self.app = app
        base = "\(server)/files/\(app)/chunks"
        query = partition.bytes.map { "%" + Hex.encode([$0]) }.joined()
        var standard = NIOHTTPSender()
        standard.answerBytesMax = Self.answerBytesMax
        self.sender = sender ?? standard
        self.token = token
    }

    // MARK: Requests

    /// The chunks that the server does not have, or not for this user.
    func missing(_ chunks: [ChunkHash]) async throws -> Set<ChunkHash> {
        var missing: Set<ChunkHash> = [], rest = chunks[...]
        while !rest.isEmpty {
            let asked = JSONValue.array(rest.prefix(1_000).map { .string($0.description) })
            rest = rest.dropFirst(1_000)
            let answer = try await send("POST", "missing", Array(asked.encoded.utf8))
            guard answer.status == 200, let names = (try? JSONValue(parsing: answer.body))?.array else {
                throw issue(answer)
            }
            missing.formUnion(names.compactMap { $0.string.flatMap { ChunkHash(hex: $0) } })
        }
        return missing
    }

    func put(_ chunk: ChunkHash, _ bytes: [UInt8]) async throws {
        let answer = try await send("PUT", chunk.description, bytes)
        guard (200..<300).contains(answer.status) else { throw issue(answer) }
    }

    /// The bytes of a chunk, which are those of its hash.
    /// - Parameters:
    ///   - buffers: where the array for them comes from, with `NIOHTTPSender`.
    ///   - disk: where they are hashed: the threads of tasks are few.
    func get(_ chunk: ChunkHash, in buffers: ChunkBuffers, hashingOn disk: Disk) async throws -> [UInt8] {
        var service = self
        if var standard = sender as? NIOHTTPSender {
            standard.makeBody = { buffers.next() }
            service.sender = standard
        }
        let answer = try await service.send("GET", chunk.description)
        guard answer.status == 200 else { throw issue(answer) }
        guard try await disk.run({ ChunkHash(of: answer.body) }) == chunk else {
            throw FileIssue(.damaged, "the server has other bytes of the content than it should: chunk \(chunk)")
        }
        return answer.body
    }

    private func send(_ method: String, _ name: String, _ body: [UInt8] = []) async throws -> HTTPAnswer {
        var isRefused = false
        while true {
            var call = HTTPCall(method: method, url: "\(base)/\(name)?path=\(query)", body: body)
            do {
                if let token = try await token(isRefused) { call.headers = [("Authorization", "Bearer \(token)")] }
                let answer = try await sender.send(call)
                if answer.status == 401, !isRefused {
                    isRefused = true
                    continue
                }
                return answer
            } catch let error as CancellationError {
                throw error
            } catch let error as AppError where error.code == .loggedOut || error.code == .noSuchUser {
                throw FileIssue(.unauthorized, error.reason, isRetrying: false)
            } catch let error as AppError {
                throw FileIssue(.offline, error.reason)
            } catch {
                throw FileIssue(.offline, "\(error)")
            }
        }
    }

    private func issue(_ answer: HTTPAnswer) -> FileIssue {
        let body = try? JSONValue(parsing: answer.body), text = body?["error"]?.string
        let reason = text ?? "the server answers \(answer.status)"
        return switch answer.status {
        case 401: FileIssue(.unauthorized, reason)
        case 403: FileIssue(.forbidden, reason)
        // A file space answers without a code; whatever else is there does not know its requests.
        case 404 where text == nil || body?["error_code"] != nil:
            FileIssue(
                .noFileSpace,
                "the server keeps no files of the app '\(app)': its configuration has to say `files: {}` for that app")
        case 404: FileIssue(.damaged, "the server does not have a part of the content: \(reason)")
        case 422: FileIssue(.damaged, reason)
        case 507: FileIssue(.quotaExceeded, reason)
        default: FileIssue(.serverError, reason)
        }
    }
}
