import AnabranchClient
import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import AnabranchTesting
import ArgumentParser
import Foundation

/// The process of one replica of `torture`, which kills it. It reports on its standard output, one line each, its
/// writes, their acknowledgements, and in the end its state.
struct TortureClientCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "torture-client", shouldDisplay: false)

    @Option var url: String
    @Option var data: String
    @Option var seed: UInt64
    @Option var client: Int
    /// The number of its first transaction.
    @Option var first: Int
    /// The time for which it writes before it waits for everything; with 0 it writes nothing.
    @Option var milliseconds: Int
    @Flag var flexible = false

    func run() async throws {
        var random = SeededRandom(scrambling: seed)
        let replica = try SyncedReplica(path: data)
        let subscriptions = TortureWorkload.classNames.map { Subscription($0) }
        if flexible, await replica.record.subscriptions?.latest.subscriptions != subscriptions {
            // The classes are uploaded before subscriptions to them are sent.
            try await replica.write { try TortureWorkload.declare($0) }
            try await replica.subscribe(subscriptions)
        }
        var configuration = SyncConfiguration(FixedRoute(url), mode: flexible ? .flexible : .partition)
        configuration.timers.connectMilliseconds = 2_000
        let sync = SyncClient(configuration)
        let events = Task { for await event in await replica.events() { Self.tell(event) } }
        // Instead of waiting long for a server that was killed, the client soon tries again.
        let timeout = Task {
            while !Task.isCancelled {
                try await Task.sleep(for: .milliseconds(200))
                if await replica.syncStatus == .offline { await sync.connectNow() }
            }
        }
        try await add(replica, to: sync)
        // A server undoes writes to objects that nobody has subscribed to.
        if milliseconds > 0 { try await replica.waitForSubscriptions() }
        let end = ContinuousClock.now + .milliseconds(milliseconds)
        var number = first
        while ContinuousClock.now < end {
            try await write(number, to: replica, &random)
            number += 1
            if random.isOne(in: 12) {
                await sync.remove(replica)
                try await Task.sleep(for: .milliseconds(random.below(150)))
                try await add(replica, to: sync)
            }
            try await Task.sleep(for: .milliseconds(random.below(40)))
        }
        try await replica.waitForUpload()
        try await replica.waitForDownload()
        Self.say("digest \(try StateDigest(of: try await replica.snapshot().state))")
        try await report(replica)
        timeout.cancel()
        await sync.stop()
        events.cancel()
        try await replica.close()
    }

    /// Prints a line at once, since the process may be killed at any moment.
    private static func say(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }

    private func add(_ replica: SyncedReplica, to sync: SyncClient) async throws {
        if flexible { try await sync.add(replica) } else { try await sync.add(replica, partition: "\"torture\"") }
    }

    private func write(_ number: Int, to replica: SyncedReplica, _ random: inout SeededRandom) async throws {
        let client = client
        random = try await replica.write { [random] transaction in
            var random = random
            try TortureWorkload.write(number, of: client, to: transaction, &random)
            return random
        }
        Self.say("wrote \(number)")
    }

    private static func tell(_ event: ReplicaEvent) {
        switch event {
        case .status(.stopped(let error)): Self.say("stopped \(error)")
        case .resetBegins: Self.say("reset")
        case .writesUndone(let error):
            for update in error.rejection?.updates ?? [] {
                Self.say("undone \(update.table) \(update.primaryKey): \(update.reason)")
            }
        case .changed, .status, .mergedAway, .resetEnded: break
        }
    }

    /// Reports the number of entries, and the counter.
    private func report(_ replica: SyncedReplica) async throws {
        let (entries, counter) = try await replica.read { transaction in
            guard transaction.classNames.contains("Entry") else { return ([String](), Int64(0)) }
            let keys = try transaction.objects("Entry").compactMap { object -> String? in
                guard case .string(let text)? = object.key else { return nil }
                return String(decoding: text, as: UTF8.self)
            }
            let value = try transaction.object("Counter", key: 0)?.value("value")
            guard case .int(let count)? = value else { return (keys, 0) }
            return (keys, count)
        }
        Self.say("counter \(counter) \(entries.count)")
        for entry in entries { Self.say("entry \(entry)") }
        Self.say("end")
    }
}
