import AnabranchCore
import AnabranchSimulation
import AnabranchTesting

@testable import AnabranchProtocol
@testable import AnabranchServer

/// A model of a client and its socket.
struct FlexibleDevice: ~Copyable {
    var client: FlexibleClient
    private let version: ProtocolVersion
    private let user: String
    private var socket: WebSocketClient?

    /// - Parameter user: for servers that take the token for the user's name.
    init(_ release: CoreVersion = CoreVersion(14, 14), _ version: Int = 14, user: String = "") {
        self.user = user
        client = FlexibleClient(release: release)
        self.version = ProtocolVersion(version)
    }

    mutating func connect(port: Int) async throws {
        let separator = version.number < 8 ? "/" : "#"
        socket = try await WebSocketClient.open(
            port: port, path: "/api/client/v2.0/app/pets/realm-sync?baas_at=\(user)",
            offer: "com.mongodb.realm-query-sync\(separator)\(version.number)")
        client.connect(version)
    }

    mutating func disconnect() {
        client.disconnect()
        socket = nil
    }

    /// The client's writes that were undone: the keys and the reasons.
    var refusals: [(key: PrimaryKey?, reason: String)] {
        client.compensations.flatMap { $0.rejection?.updates ?? [] }.map { ($0.key, $0.reason) }
    }

    /// Goes on until everything is uploaded and acknowledged, and the client has what there is, or until the server has
    /// ended the session with an error.
    mutating func settle() async throws {
        client.requestMark()
        while true {
            try await sendAll()
            if client.isSuspended, client.lastError?.code == .sessionClosed {
                client.resume()
                continue
            }
            if let error = client.lastError, error.code != .sessionClosed { return }
            if client.isRunning, client.file?.isAcknowledged == true, isComplete { return }
            try await receive()
        }
    }

    /// Goes on until the dogs that it has are as they should be.
    mutating func wait(until isDone: ([String]) -> Bool) async throws {
        while try !isDone(dogs) {
            try await sendAll()
            try await receive()
        }
    }

    /// Goes on until there are parts of a bootstrap.
    mutating func receiveParts() async throws {
        while !client.hasParts {
            try await sendAll()
            try await receive()
        }
    }

    private mutating func sendAll() async throws {
        while let message = client.next() {
            try await socket?.send(ClientMessageCodec(mode: .flexible).encode(message).bytes)
        }
    }

    private mutating func receive() async throws {
        let frame = try await socket?.receive()
        let codec = ServerMessageCodec(limits: Limits(), mode: .flexible, version: version)
        try client.receive(try codec.decode(frame?.payload ?? []))
    }

    private var isComplete: Bool {
        do {
            try client.checkNothingIsMissing()
            return true
        } catch {
            return false
        }
    }

    /// The names of the dogs that the client has.
    var dogs: [String] {
        get throws {
            try client.file?.state.read { transaction in
                try transaction.objects("Dog").map { dog in
                    guard case .string(let name) = try dog.value("name") else { return "" }
                    return String(decoding: name, as: UTF8.self)
                }
            } ?? []
        }
    }
}

/// Takes the token for the user's name.
struct UserByToken: Authenticator {
    func admit(_ credentials: Credentials) async -> Admission {
        .admitted(Principal(app: credentials.app, user: credentials.token))
    }
}

extension WriteTransaction {
    func addDogs() throws {
        try addClass("Dog", key: "_id", .int)
        try addColumn("name", .string, to: "Dog")
        try addColumn("age", .int, to: "Dog")
    }

    func addDog(_ id: Int64, _ name: String, age: Int64) throws {
        try create("Dog", key: .int(id), ["name": .string(Array(name.utf8)), "age": .int(age)])
    }
}
