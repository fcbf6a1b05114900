import NIOCore

extension LoadRun {
    /// A new client that has written something and is gone: it stands at a place of the log where no other client
    /// stands.
    func departedClient(of file: String, on eventLoop: (any EventLoop)? = nil) async throws -> LoadClient {
        let client = try await connectedClient(of: file, on: eventLoop)
        let version = await client.upload([LoadChangesets.first(of: client.identNumber)]).version
        _ = try await client.wait { $0.isAcknowledged(version) }
        await client.leave()
        return client
    }

    /// Writes an object again and again to a file, `megabytes` in all, in messages such as clients make.
    func writeHistory(of file: String, megabytes: Double) async throws {
        let feeder = try await connectedClient(of: file)
        var history = [LoadChangesets.first(of: 1)] + LoadChangesets.history(of: 1, bytes: Int(megabytes * 1e6))
        while !history.isEmpty {
            let version = await feeder.upload(Array(history.prefix(8))).version
            history.removeFirst(min(8, history.count))
            _ = try await feeder.wait { $0.isAcknowledged(version) }
        }
        await feeder.leave()
        report("a history of \(megabytes) MB is there")
    }
}
