import AnabranchCore
import AnabranchTestClient

/// A hostile client.
actor Attacker {
    /// The number of changesets in a message: no more than every server takes.
    private static let changesetsPerMessage = 10_000

    private let run: LoadRun
    private let client: LoadClient
    private let file: String
    private let patience: Duration
    private let onRead: @Sendable () -> Void
    private(set) var outcome = LoadOutcome(operations: 0, operation: "answer")

    /// Connects, and makes an object.
    ///
    /// - Parameter onRead: is called when the server has read the attack.
    init(
        _ run: LoadRun, of file: String, patience: Duration, onRead: @escaping @Sendable () -> Void
    ) async throws {
        self.run = run
        self.file = file
        self.patience = patience
        self.onRead = onRead
        client = try await run.connectedClient(of: file)
        let version = await client.upload([AttackChangesets.start]).version
        _ = try await client.wait { $0.isAcknowledged(version) }
    }

    /// Uploads like a device whose clock stands at the beginning.
    ///
    /// - Returns: true if the server took the upload.
    @discardableResult
    func upload(_ changesets: [[UInt8]], as name: String = "answered") async -> Bool {
        let (version, sent) = await client.upload(changesets, timestamp: 1)
        return await waitForAnswer(to: version, sent: sent, of: client, as: name)
    }

    private func waitForAnswer(
        to version: ClientVersion, sent: ContinuousClock.Instant, of client: LoadClient, as name: String
    ) async -> Bool {
        let timer = Task { [patience, run] in
            try await Task.sleep(for: patience)
            run.report("no answer for \(patience)")
            await client.leave()
        }
        defer { timer.cancel() }
        if name == "answered" {
            Task { [onRead] in
                try await client.ping()
                onRead()
            }
        }
        do {
            let time = try await client.wait { $0.isAcknowledged(version) }
            outcome.latencies[name, default: []].append(time - sent)
            outcome.operations += 1
            return true
        } catch {
            recordRefusal(error, sent: sent, as: name)
            return false
        }
    }

    private func recordRefusal(_ error: any Error, sent: ContinuousClock.Instant, as name: String) {
        outcome.latencies[name, default: []].append(.now - sent)
        let words = "\(error)"
        outcome.counts["refusal_bytes"] = Double(words.utf8.count)
        outcome.refusal = String(words.prefix(300))
    }

    /// Writes the changes that the device will meet to the log, with the current time.
    ///
    /// - Returns: the device, which has seen nothing of it.
    /// - Throws: `LoadError` if the server does not take the writes.
    func prepareMerge(_ shape: MergeShape, _ count: Int) async throws -> LoadClient {
        let device = try await run.connectedClient(of: file)
        await device.leave()
        var rest = shape.logged(count)[...]
        while !rest.isEmpty {
            let (version, sent) = await client.upload(Array(rest.prefix(Self.changesetsPerMessage)))
            rest = rest.dropFirst(Self.changesetsPerMessage)
            guard await waitForAnswer(to: version, sent: sent, of: client, as: "prepared") else {
                throw LoadError("the server does not take what prepares the merge: \(outcome.refusal ?? "")")
            }
        }
        return device
    }

    /// Has the device come back with changes whose timestamps are earlier.
    func merge(_ shape: MergeShape, _ count: Int, by device: LoadClient) async {
        let start = ContinuousClock.now
        do {
            let connection = run.connection(on: device.eventLoop)
            try await connection.open()
            try await device.identify(on: connection, uploading: [shape.brought(count)], timestamp: 1)
            _ = await waitForAnswer(to: await device.uploadedVersion, sent: start, of: device, as: "answered")
        } catch {
            recordRefusal(error, sent: start, as: "answered")
        }
    }

    func grow(_ count: Int, _ megabytes: Double, increments: Int) async {
        for number in 0..<count {
            let value = AttackChangesets.value(number, bytes: Int(megabytes * 1e6))
            guard await upload([value], as: "prepared") else { return }
        }
        for _ in 0..<increments {
            guard await upload([AttackChangesets.additions(1)]) else { return }
        }
    }
}
