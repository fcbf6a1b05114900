import AnabranchProtocol
import AnabranchServer
import AnabranchTesting

// Tokens that expire.

extension Simulation {
    /// A client of a fork learns of it where it is connected, too: its server closes the connection.
    func expireToken(of client: SimulatedClient) throws {
        guard !client.hasExpiredToken else { return }
        tally.mark(SimulationPlan.Fault.expiredToken.rawValue)
        client.hasExpiredToken = true
        guard client.dialect.hasTokensOfIssuers else { return }
        client.renewsTokenAt = clock.now + Int64(random.pick([1_000, 60_000, 1_000_000]))
        guard client.process?.connection != nil, let machine else { return }
        disconnect(client, .closeCode(4001))
        try refuseToken(of: client, machine)
    }

    /// A client of Realm fetches another token. One of a fork without a way to do so takes the same token again: after
    /// 4001 at once, after a warning when the time of waiting is over.
    func refuseToken(of client: SimulatedClient, _ machine: ServerMachine) throws {
        guard client.dialect.hasTokensOfIssuers else {
            client.hasExpiredToken = false
            tally.mark("token refused")
            return retry(client, behind: .status(401))
        }
        client.refusals = client.refusals.filter { clock.now - $0 < 60_000 } + [clock.now]
        try require(
            client.refusals.count <= 10,
            "client \(client.number) comes again and again with its token: \(client.refusals.count) times in a minute")
        guard let error = machine.refusal(ofExpired: "\(client.number), \(client.tokenCount)") else {
            tally.mark("token of a fork refused")
            client.process?.connectsAt = clock.now
            return
        }
        tally.mark("error \(error.code.rawValue)")
        retry(client, behind: .failed(error), error)
    }

    /// The app of a client of a fork sets another token, and its client comes at once.
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
