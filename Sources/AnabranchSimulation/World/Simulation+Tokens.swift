import AnabranchProtocol
import AnabranchServer
import AnabranchTesting

// Tokens that expire.

extension Simulation {
    /// Lets a client's token expire. A connected client of a fork learns of it at once, since the server closes the
    /// connection.
    func expireToken(of client: SimulatedClient) throws {
        guard !client.hasExpiredToken else { return }
        mark(SimulationPlan.Fault.expiredToken.rawValue, client)
        client.hasExpiredToken = true
        guard client.dialect.hasTokensOfIssuers else { return }
        client.renewsTokenAt = clock.now + Int64(random.pick([1_000, 60_000, 1_000_000]))
        guard client.process?.connection != nil, let machine = client.process?.link?.node.machine
        else { return }
        disconnect(client, .closeCode(4001))
        try refuseToken(of: client, machine)
    }

    /// Refuses an expired token. A client of Realm fetches another one. A client of a fork, which has no way to do so,
    /// uses the same token again: at once after 4001, and after a warning when its delay is over.
    func refuseToken(of client: SimulatedClient, _ machine: ServerMachine) throws {
        guard client.dialect.hasTokensOfIssuers else {
            client.hasExpiredToken = false
            mark("token refused", client)
            return retry(client, after: .status(401))
        }
        client.refusals = client.refusals.filter { clock.now - $0 < 60_000 } + [clock.now]
        try require(
            client.refusals.count <= 10,
            "client \(client.number) comes again and again with its token: \(client.refusals.count) times in a minute")
        guard let error = machine.refusal(ofExpired: "\(client.number), \(client.tokenCount)") else {
            mark("token of a fork refused", client)
            client.process?.connectsAt = clock.now
            return
        }
        mark("error \(error.code.rawValue)", client)
        retry(client, after: .failed(error), error)
    }

    /// Sets another token, as the app of a client of a fork does, after which the client connects at once.
    func renewToken(of client: SimulatedClient) {
        let wasRefused = client.hasExpiredToken && client.dialect.hasTokensOfIssuers
        client.hasExpiredToken = false
        client.renewsTokenAt = nil
        client.tokenCount += 1
        client.refusals = []
        guard wasRefused, client.process?.connectsAt != nil else { return }
        client.process?.retry.reset()
        client.process?.connectsAt = clock.now
    }
}
