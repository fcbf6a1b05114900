import AnabranchCore
import AnabranchServer

extension SimperiumConnection {
    /// The characters of tokens, besides letters and digits.
    private static let tokenCharacters = "-_.~+/=|"

    private static func isWellFormed(_ token: String) -> Bool {
        (32...4_096).contains(token.utf8.count)
            && token.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: tokenCharacters.utf8.contains(byte)
                }
            }
    }

    /// Opens a channel, or restarts it.
    func open(_ name: ChannelName, _ payload: Substring) async throws {
        close(name)
        ended[name] = nil
        guard let request = OpeningRequest(payload), Self.isWellFormed(request.token) else {
            return try await refuse(name, 400, "Bad request")
        }
        guard channels.count < wire.limits.channelsMax else { return try await refuse(name, 500, "Too many channels") }
        guard app.isEmpty || app.lowercased() == request.app.lowercased() else {
            return try await refuse(name, 500, "Another app")
        }
        guard BucketName.isValid(request.bucket),
            let settings = wire.limits.app(request.app)?.settings(of: request.bucket)
        else { return try await refuse(name, 500, "No such bucket") }
        let principal: Principal
        switch await wire.authenticator.admit(token: request.token, app: request.app) {
        case .admitted(let admitted): principal = admitted
        case .tokenRefused, .userRefused:
            return try await refuse(name, 401, "Token invalid", isOld: request.isOld)
        case .unavailable: throw End.closed(1013, "try again later")
        }
        guard let user = principal.user else {
            return try await refuse(name, 401, "Token invalid", isOld: request.isOld)
        }
        guard socket.count(for: principal) else { throw End.closed(1013, "too many connections") }
        let path = SimperiumWire.path(of: request.bucket, settings, for: user, app: principal.app)
        guard wire.permission(for: principal, on: path) >= .read else {
            return try await refuse(name, 500, "No right to the bucket")
        }
        let file = try wire.file(at: path)
        let channel = Channel(name, serial: nextSerial(), request, principal, file, settings)
        try await file.openDoor()
        do {
            channel.bucket = try await file.findBucket(request.bucket, settings.form)
        } catch let problem as BucketProblem {
            wire.report(problem, with: request.bucket, of: file.path)
            return try await refuse(name, 500, "No class of that bucket")
        }
        try file.add(channel, of: socket)
        channels[name] = channel
        file.withClients { $0.resume(request.client, request.bucket, at: file.now) }
        try await send(channel.message("auth", principal.simperiumName))
        try await askForOperator()
        guard let command = request.command else { return }
        let parts = command.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, first != "init" else { return }
        try await handle(first, parts.count > 1 ? parts[1] : "", on: channel)
    }

    /// Refuses a channel, or ends it.
    /// - Parameter isOld: whether the client knows a login that has ended as the word `expired` only.
    func refuse(_ name: ChannelName, _ code: Int, _ text: String, isOld: Bool = false) async throws {
        if isOld, code == 401 { try await send("\(name.prefix)auth:expired") }
        try await send("\(name.prefix)auth:{\"msg\":\"\(text)\",\"code\":\(code)}")
    }
}

extension Principal {
    /// The name of the user as it is sent to clients: an e-mail address, or the user's ident. Clients take JSON for a
    /// refusal.
    var simperiumName: String {
        let email = (try? JSONValue(parsing: data.utf8))?["email"]?.string
        let name = email ?? user ?? "user"
        guard (try? JSONValue(parsing: name.utf8)) == nil, !name.hasPrefix("{"), name != "expired",
            !name.utf8.contains(where: { $0 < 0x20 })
        else { return "user-\(user ?? "")" }
        return name
    }
}
