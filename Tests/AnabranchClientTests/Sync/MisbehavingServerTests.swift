import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import AnabranchTesting
import Foundation
import Synchronization
import Testing

@testable import AnabranchClient

/// Servers that say nothing, or not what they should; nobody waits for them for ever, and nothing traps.
@Suite(.timeLimit(.minutes(30))) struct MisbehavingServerTests {
    private static func client(
        _ server: any Transport, _ change: (inout SyncConfiguration) -> Void = { _ in }
    ) -> SyncClient {
        var configuration = SyncConfiguration(FixedRoute("ws://nowhere/"), transport: server)
        change(&configuration)
        return SyncClient(configuration)
    }

    private static func error(_ code: ErrorCode, _ session: SessionID) -> [SpokenServer.Reply] {
        [.say(.error(session: session, ErrorMessage(code, "no")))]
    }

    /// The file that an IDENT is about.
    private static func file(_ message: ClientMessage) -> ClientFileID? {
        if case .ident(_, let request) = message { request.file.ident } else { nil }
    }

    // MARK: Silence

    @Test func whoDoesNotConfirmAnUnbindIsNotWaitedFor() async throws {
        let server = SpokenServer { message, _ in if case .unbind = message { [] } else { nil } }
        try await withFolder { path async throws in
            let replica = try SyncedReplica(path: path("one"))
            let client = Self.client(server) { $0.timers.pongMilliseconds = 20 }
            try await client.add(replica, partition: "1")
            try await replica.waitForDownload()
            await client.remove(replica)
            #expect(await replica.syncStatus == .offline)
            try await replica.close()
        }
    }

    /// A connection that opens only when it is given up, or takes no message.
    private final class StuckTransport: Transport, TransportConnection {
        let opens: Bool
        let isGivenUp = Signal()
        let chosenProtocol = "com.mongodb.realm-sync#14"
        private let end = AsyncStream<Void>.makeStream()

        init(opens: Bool) { self.opens = opens }

        func connect(_ request: WebSocketRequest) async throws -> any TransportConnection {
            if opens { return self }
            for await _ in end.stream {}
            isGivenUp.give()
            throw CancellationError()
        }

        func send(_ message: [UInt8]) async throws { _ = try await receive() }

        func receive() async throws -> [UInt8] {
            for await _ in end.stream {}
            throw TransportError(.disconnected, "closed here")
        }

        func close() async {
            end.continuation.finish()
            isGivenUp.give()
        }
    }

    @Test(arguments: [true, false]) func aConnectionThatIsStuckIsGivenUp(opens: Bool) async throws {
        let server = StuckTransport(opens: opens)
        try await withFolder { path async throws in
            let replica = try SyncedReplica(path: path("one"))
            let client = Self.client(server) { configuration in
                configuration.timers.connectMilliseconds = 20
                (configuration.timers.pingMilliseconds, configuration.timers.pongMilliseconds) = (10, 20)
            }
            try await client.add(replica, partition: "1")
            await server.isGivenUp.wait()
            await client.stop()
            try await replica.close()
        }
    }

    // MARK: Client resets

    @Test func aFreshFileThatIsRefusedEndsTheReset() async throws {
        let server = SpokenServer { message, _ in
            switch message {
            case .ident(let session, let request) where request.file.ident == 2:
                Self.error(.badClientFileIdent, session)
            case .ident(let session, _): Self.error(.permissionDenied, session)
            default: nil
            }
        }
        try await withFolder { path async throws in
            let replica = try SyncedReplica(path: path("one")), client = Self.client(server)
            try await replica.write { try Device.declare($0) }
            try await client.add(replica, partition: "1")
            await syncFails(.clientResetRequired) { try await replica.waitForUpload() }
            #expect(await replica.syncStatus.stop?.code == .clientResetRequired)
            await client.stop()
            try await replica.close()
        }
    }

    /// The server loses what it has while the fresh file is downloaded. The next attempt begins anew.
    @Test func aFreshFileThatHasGotOldIsNotUsed() async throws {
        let server = SpokenServer { message, _ in
            guard case .ident(let session, let request) = message, request.file.ident < 4 else { return nil }
            return Self.error(.badClientFileIdent, session)
        }
        try await withFolder { path async throws in
            let replica = try SyncedReplica(path: path("one")), client = Self.client(server)
            let events = await replica.events()
            try await client.add(replica, partition: "1")
            #expect(try await first(events, \.stop).code == .clientResetRequired)
            #expect(server.heard.compactMap { Self.file($0.message) } == [2, 3])
            try await client.reset(replica, recovers: true)
            _ = try await first(events, \.report)
            try await replica.waitForDownload()
            #expect(server.heard.compactMap { Self.file($0.message) } == [2, 3, 4, 4])
            await client.stop()
            try await replica.close()
        }
    }

    /// A WebSocket that is closed with 1009 asks for a client reset of all files. The next connection is a fast one, on
    /// which a session asks for no MARK by itself; and a file that is being replaced has no session meanwhile.
    @Test func aConnectionMayAskForAClientReset() async throws {
        let server = SpokenServer { message, connection in
            if connection == 1, Self.file(message) != nil { [.close(1009)] } else { nil }
        }
        try await withFolder { path async throws in
            let replica = try SyncedReplica(path: path("one")), client = Self.client(server)
            try await replica.write { try Device.declare($0) }
            let events = await replica.events()
            try await client.add(replica, partition: "1")
            let report = try await first(events, \.report)
            #expect(report.backupPath != nil)
            try await replica.waitForUpload()
            #expect(server.heard.compactMap { Self.file($0.message) } == [2, 3, 3])
            #expect(await replica.record.file?.ident == 3)
            await client.stop()
            try await replica.close()
        }
    }

    /// Unless a transaction is the cause that would come back: it is more than any UPLOAD of several has.
    @Test func aTransactionThatIsTooLargeIsAnErrorAndNoReset() async throws {
        let server = SpokenServer { message, _ in if case .upload = message { [.close(1009)] } else { nil } }
        try await withFolder { path async throws in
            let replica = try SyncedReplica(path: path("one")), client = Self.client(server)
            try await replica.write { tx in
                try tx.addClass("Large", key: "_id", .int)
                try tx.addColumn("data", .binary, isNullable: true, to: "Large")
                for key in 1...2 {
                    let data = Payload.binary([UInt8](repeating: 7, count: ReplicaLimits.uploadBytesMax / 2))
                    try tx.create("Large", key: .int(Int64(key)), ["data": data])
                }
            }
            let events = await replica.events()
            try await client.add(replica, partition: "1")
            #expect(try await first(events, \.stop).code == .transactionTooLarge)
            #expect(await replica.record.file?.ident == 2)
            #expect(await replica.largestUnsentBytes != nil)
            await client.stop()
            try await replica.close()
        }
    }

    /// A server that sends changes without end fills no disk.
    @Test(arguments: [true, false]) func whatAReplicaTakesIsBounded(isDiskFull: Bool) throws {
        let path = NSTemporaryDirectory() + "space-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: path) }
        try Data(count: 1_000).write(to: URL(fileURLWithPath: path))
        var space = ReplicaSpace()
        space.freeBytesMin = 0
        #expect(space.shortage(at: path) == nil)
        if isDiskFull { space.freeBytesMin = .max } else { space.fileBytesMax = 1_000 }
        #expect(space.shortage(at: path) != nil)
    }

    /// A file under the name of another one is not taken for that: its changes would be recovered into the other one.
    @Test func aReplicaStaysWithItsPartition() async throws {
        let server = SpokenServer { _, _ in nil }
        try await withFolder { path async throws in
            let replica = try SyncedReplica(path: path("one")), client = Self.client(server)
            try await client.add(replica, partition: "1")
            try await replica.waitForDownload()
            await client.remove(replica)
            await syncFails(.notSynchronized) { try await client.add(replica, partition: "2") }
            try await client.add(replica, partition: "1")
            await client.stop()
            try await replica.close()
        }
    }

    /// Two replicas on a connection. One has stopped, and has no part in the next connection, until it is reset.
    @Test func whatHasStoppedJoinsTheConnectionAgain() async throws {
        let server = SpokenServer { message, connection in
            guard case .ident(let session, let request) = message else { return nil }
            if request.file.ident == 2 { return Self.error(.badClientFileIdent, session) }
            return connection == 1 ? [.close(1011)] : nil
        }
        try await withFolder { path async throws in
            let one = try SyncedReplica(path: path("one")), two = try SyncedReplica(path: path("two"))
            let client = Self.client(server), events = await one.events()
            try await client.add(one, partition: "1", resetMode: .manual)
            #expect(try await first(events, \.stop).code == .clientResetRequired)
            await syncFails(.notSynchronized) { try await client.reset(two, recovers: true) }
            try await client.add(two, partition: "2")
            await syncFails(.notSynchronized) { try await client.reset(two, recovers: true) }
            try await two.waitForDownload()
            #expect(server.heard.last?.connection == 2)
            try await client.reset(one, recovers: true)
            try await one.waitForDownload()
            try await one.write { try Device.declare($0) }
            try await one.waitForUpload()
            await client.stop()
            try await one.close()
            try await two.close()
        }
    }

    // MARK: What cannot be integrated

    @Test func whoeverWaitsHearsThatADownloadWasRefused() async throws {
        let server = SpokenServer { message, _ in
            guard case .ident(let session, let request) = message, request.file.ident == 2 else { return nil }
            let progress = DownloadProgress(
                cursor: DownloadCursor(serverVersion: 2, clientVersion: 0),
                latest: SaltedVersion(version: 2, salt: 7), upload: UploadCursor(), downloadableBytes: 0)
            let changeset = DownloadedChangeset(
                cursor: progress.cursor, tag: OriginTag(timestamp: 1, ident: 9), changeset: [0xff])
            let download = Download(progress: progress, changesets: [changeset])
            return [.say(.download(session: session, DownloadMessage(download)))]
        }
        try await withFolder { path async throws in
            let replica = try SyncedReplica(path: path("one")), client = Self.client(server)
            try await replica.write { try Device.declare($0) }
            try await client.add(replica, partition: "1")
            await syncFails(.violation) { try await replica.waitForUpload() }
            #expect(await replica.record.progress.cursor.serverVersion == 0)
            // A fresh file may be the way out.
            try await client.reset(replica, recovers: true)
            try await replica.waitForUpload()
            #expect(await replica.record.file?.ident == 3)
            await client.stop()
            try await replica.close()
        }
    }

    // MARK: A file that fails

    enum Moment: CaseIterable {
        case ident, download
    }

    /// Nothing can be stored. The session waits for what does not come, and something else asks it to go on.
    @Test(arguments: Moment.allCases) func aFileThatFailsTrapsNothing(moment: Moment) async throws {
        try await withFolder { path async throws in
            let replica = try SyncedReplica(path: path("one")), session: SessionID = 1
            try await replica.begin(ClientSession(session, partition: Array("1".utf8)), within: ReplicaSpace()) {}
            try await replica.connected(ProtocolVersion(14), isFast: false)
            _ = try await replica.nextMessage()
            let ident = ServerMessage.ident(session: session, SaltedFileID(ident: 2, salt: 7))
            let progress = DownloadProgress(
                cursor: DownloadCursor(serverVersion: 2, clientVersion: 0),
                latest: SaltedVersion(version: 2, salt: 7), upload: UploadCursor(), downloadableBytes: 0)
            let download = ServerMessage.download(session: session, DownloadMessage(Download(progress: progress)))
            if moment == .download {
                #expect(try await replica.receive(ident) == nil)
                while try await replica.nextMessage() != nil {}
            }
            try await replica.breakFile()
            let error = await thrown(ReplicaError.self) {
                _ = try await replica.receive(moment == .ident ? ident : download)
            }
            #expect(error?.code == .storeFailed)
            #expect(try await replica.nextMessage() == nil)
            #expect(try await replica.receive(download) == nil)
            await replica.disconnected()
        }
    }

    /// The delay after an error is over, and the parts of a bootstrap that have come cannot be dropped. The session is
    /// not left waiting: it begins on the next connection.
    @Test func aFileThatFailsWhenASessionGoesOnDoesNotStopIt() async throws {
        try await withFolder { path async throws in
            let replica = try SyncedReplica(path: path("one")), session: SessionID = 1
            let query = try await replica.subscribe([Subscription("Task")])
            try await replica.begin(ClientSession(session), within: ReplicaSpace()) {}
            try await replica.connected(ProtocolVersion(14), isFast: false)
            _ = try await replica.nextMessage()
            _ = try await replica.receive(.ident(session: session, SaltedFileID(ident: 2, salt: 7)))
            _ = try await replica.nextMessage()
            let mark = try #require(try await replica.nextMessage())
            guard case .mark(_, let request) = mark else {
                Issue.record("\(mark)")
                return
            }
            _ = try await replica.receive(.mark(session: session, request: request))
            while try await replica.nextMessage() != nil {}
            let progress = DownloadProgress(
                cursor: DownloadCursor(serverVersion: 2, clientVersion: 0),
                latest: SaltedVersion(version: 2, salt: 7), upload: UploadCursor(), downloadableBytes: 0)
            let part = DownloadMessage(
                Download(progress: progress), batch: QueryBatch(version: query, state: .more, estimate: 0.5))
            _ = try await replica.receive(.download(session: session, part))
            let error = try await replica.receive(.error(session: session, ErrorMessage(.otherSessionError)))
            #expect(error?.code == .otherSessionError)
            #expect(await replica.session?.isWaitingToResume == true)
            try await replica.breakFile()
            let failure = await thrown(ReplicaError.self) { try await replica.resume() }
            #expect(failure?.code == .storeFailed)
            #expect(try await replica.nextMessage() == nil)
            #expect(await replica.session?.isWaitingToResume == false)
        }
    }

    /// The other replica on the connection goes on.
    @Test func aDamagedReplicaStopsAlone() async throws {
        let text = "a text that stands nowhere else"
        try await withFolder { path async throws in
            let device = try Device(path("one"), port: 1)
            try await device.put(1, text)
            try await device.close()
            var bytes = Array(try Data(contentsOf: URL(filePath: path("one"))))
            // In the row of the object, and in the changeset.
            let places = bytes.indices.filter { bytes[$0...].starts(with: text.utf8) }
            #expect(places.count == 2)
            for place in places { bytes[place] ^= 1 }
            try Data(bytes).write(to: URL(filePath: path("one")))
            let one = try SyncedReplica(path: path("one")), two = try SyncedReplica(path: path("two"))
            try await two.write { try Device.declare($0) }
            let client = Self.client(SpokenServer()), events = await one.events()
            try await client.add(two, partition: "2")
            try await client.add(one, partition: "1")
            #expect(try await first(events, \.stop).code == .storeFailed)
            try await two.waitForUpload()
            #expect(await two.syncStatus == .running)
            await client.stop()
            try await one.close()
            try await two.close()
        }
    }

    // MARK: Calls that meet

    @Test func itStopsAndBeginsAgain() async throws {
        try await withFolder { path async throws in
            let replica = try SyncedReplica(path: path("one")), client = Self.client(SpokenServer())
            for _ in 0..<50 {
                try await client.add(replica, partition: "1")
                await client.stop()
            }
            try await client.add(replica, partition: "1")
            try await replica.waitForDownload()
            await client.stop()
            try await replica.close()
        }
    }

    /// Closing a replica that is still synchronized does not trap, and the client goes on without it.
    @Test func aReplicaMayBeClosedTooEarly() async throws {
        try await withFolder { path async throws in
            let one = try SyncedReplica(path: path("one")), two = try SyncedReplica(path: path("two"))
            let client = Self.client(SpokenServer())
            try await client.add(one, partition: "1")
            try await client.add(two, partition: "2")
            try await one.close()
            for await _ in await one.events() {}
            try await two.waitForDownload()
            await client.remove(one)
            await client.stop()
            try await two.close()
        }
    }
}

extension SyncedReplica {
    /// Nothing can be read or written any more.
    fileprivate func breakFile() throws { try replica.store.closeFile() }
}

extension SyncStatus {
    fileprivate var stop: SyncError? { if case .stopped(let error) = self { error } else { nil } }
}
