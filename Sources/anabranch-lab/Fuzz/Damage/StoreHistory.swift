import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import AnabranchTestClient
import AnabranchTesting
import NIOCore

/// Writes the content of a store before it is damaged: files with logs, client files, reciprocal changesets and states.
struct StoreHistory: Sendable {
    /// A file, and what its clients remember.
    struct File: Sendable {
        var name: String
        /// A client that left before most of the log was written.
        var early: LoadClient.Memory
        /// A client that left as early, whose change has been merged, and that has not heard of it: so the store holds
        /// the log in the form that it has for this client.
        var merged: LoadClient.Memory
        /// The change that both bring when they come back: it conflicts with the log.
        var lateChange: [UInt8]
        /// The time of that change, always the same, so that each server merges in the same way.
        var lateTime: ChangesetTime
    }

    private static let changesetBytesMax = 3_000

    let target: SyncTarget
    let eventLoop: any EventLoop

    /// Writes some files.
    ///
    /// - Throws: `LoadError` if the server does not take the writes.
    func write(files count: Int, changesets: Int) async throws -> [File] {
        var files: [File] = []
        for number in 0..<count {
            files.append(try await write("damage-\(number)", seed: UInt64(number), changesets: changesets))
        }
        return files
    }

    /// Seals the older entries of every second file of a store that no server has open.
    static func seal(_ directory: String) throws {
        let store = try SQLiteStore(directory: directory)
        let policy = SealingPolicy(entriesMax: 32, restMin: 16)
        for (number, listed) in try store.files(after: nil, countMax: .max).enumerated() where number % 2 == 0 {
            let file = try SyncedFile(path: listed.path, store: store, keepsState: false)
            while let commit = try file.sealIfDue(policy) {
                let commit = file.completed(commit)
                try store.commit([commit])
                file.finish(commit, nil)
            }
        }
        try store.close()
    }

    private func write(_ name: String, seed: UInt64, changesets: Int) async throws -> File {
        var random = SeededRandom(scrambling: seed)
        let writer = try await client(of: name)
        let object = await writer.identNumber
        var changes = (0...changesets + 1).map { number in
            LoadChangesets.update(of: object, number: UInt64(number), bytes: random.below(Self.changesetBytesMax))
        }
        let (newest, late) = (changes.removeLast(), changes.removeLast())
        try await upload([LoadChangesets.first(of: object)], by: writer)
        let early = try await client(of: name), merged = try await client(of: name)
        await early.leave()
        await merged.leave()
        for change in changes.prefix(changes.count / 2) { try await upload([change], by: writer) }
        try await bring(newest, by: merged, to: writer)
        for change in changes.dropFirst(changes.count / 2) { try await upload([change], by: writer) }
        await writer.leave()
        return File(
            name: name, early: await early.memory, merged: await merged.memory, lateChange: late,
            lateTime: .now + 86_400_000)
    }

    private func client(of name: String) async throws -> LoadClient {
        let client = LoadClient(of: name, on: eventLoop)
        try await client.join(try await .opened(to: target, on: eventLoop))
        return client
    }

    private func upload(_ changesets: [[UInt8]], by client: LoadClient) async throws {
        let version = await client.upload(changesets).version
        _ = try await client.wait { $0.isAcknowledged(version) }
    }

    /// Has a client come back with a change, and leave before it reads what the server has made of it.
    ///
    /// - Parameter reader: waits for the result. It has written what the change conflicts with.
    func bring(_ change: [UInt8], by client: LoadClient, to reader: LoadClient) async throws {
        let before = await (version: reader.download.serverVersion, changesets: reader.changesetCount)
        // A client that writes more than once a millisecond is ahead of the clock. An older change would lose in the
        // merge, and no reader would see it.
        let time = await max(.now, reader.newestTag.timestamp + 1)
        let connection = try await TestConnection.opened(to: target, on: eventLoop)
        try await connection.setReading(false)
        try await client.identify(on: connection, uploading: [change], timestamp: time)
        _ = try await reader.wait { $0.download.serverVersion > before.version }
        await client.leave()
        guard await reader.changesetCount > before.changesets else {
            throw LoadError("the change of a client that came back has come to nothing")
        }
    }
}
