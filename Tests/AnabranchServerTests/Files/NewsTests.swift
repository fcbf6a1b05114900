import AnabranchCore
import AnabranchProtocol
import Testing

@testable import AnabranchServer

/// A client that has everything is given what comes next without asking for it.
@Suite struct NewsTests {
    private let rig = WireRig(keepsState: false)

    /// A session that has everything.
    private func join() throws -> RigConnection {
        let connection = rig.connect(try Negotiation(offer: WebSocketClient.offer))
        say("bind 1 2 0 1 0\n/f", on: connection)
        let ident = try #require(connection.sent.first.map { SyncMessage($0) }).words.dropFirst(2)
        say("ident 1 \(ident.joined(separator: " ")) 0 0 0 0\n", on: connection)
        return connection
    }

    private func say(_ text: String, on connection: RigConnection) {
        connection.wire.receive(Array(text.utf8))
        rig.run()
    }

    /// Commits a changeset, of which the connections have been told then. Its client has everything that was before.
    private func commit(_ number: Int, from connection: RigConnection) {
        let changeset = TurnRig.updates(1)[0], cursor = "\(number + 1) \(number - 1)"
        let body = Array("\(cursor) 1 0 \(changeset.count) ".utf8) + changeset
        connection.wire.receive(Array("upload 1 0 \(body.count) 0 \(cursor) 0\n".utf8) + body)
        rig.submit(connection.wire.takeRequests())
    }

    /// Says that the client has the versions up to this one.
    private func acknowledge(_ version: Int, on connection: RigConnection) {
        connection.wire.receive(Array("upload 1 0 0 0 \(version + 1) \(version) \(version)\n".utf8))
        rig.submit(connection.wire.takeRequests())
    }

    /// The server versions from which and to which the next message goes; nil if there is none.
    private func nextDownload(on connection: RigConnection) throws -> UInt64? {
        guard case .message(let message)? = connection.wire.next() else { return nil }
        let download = try #require(ReceivedDownload(SyncMessage(message.bytes)))
        #expect(download.entries.map(\.cursor.serverVersion) == [download.progress.cursor.serverVersion])
        return download.progress.cursor.serverVersion.rawValue
    }

    @Test("the DOWNLOAD comes with the commit, and the writer's acknowledgement too")
    func withoutAsking() throws {
        let writer = try join(), reader = try join()
        for number in 1...3 {
            commit(number, from: writer)
            #expect(try nextDownload(on: reader) == UInt64(number))
            #expect(try nextDownload(on: reader) == nil)
            guard case .message(let message)? = writer.wire.next() else { return #expect(Bool(false)) }
            #expect(SyncMessage(message.bytes).numbers[5] == UInt64(number + 1))
            #expect(writer.wire.next() == nil)
            #expect(reader.wire.takeRequests().isEmpty && writer.wire.takeRequests().isEmpty)
            acknowledge(number, on: reader)
        }
    }

    @Test("what cannot be sent is dropped, and asked for later")
    func slowReader() throws {
        let writer = try join(), reader = try join()
        reader.canSend = false
        commit(1, from: writer)
        reader.canSend = true
        #expect(try nextDownload(on: reader) == nil)
        let requests = reader.wire.takeRequests()
        #expect(requests.map(\.request) == [.scan(from: DownloadCursor())])
        rig.submit(requests)
        #expect(try nextDownload(on: reader) == 1)
        commit(2, from: writer)
        #expect(try nextDownload(on: reader) == 2)
    }

    @Test("of several commits the first one comes at once, and the session asks for the others")
    func severalCommits() throws {
        let writer = try join(), reader = try join()
        for number in 1...2 { commit(number, from: writer) }
        #expect(try nextDownload(on: reader) == 1)
        #expect(try nextDownload(on: reader) == nil)
        let requests = reader.wire.takeRequests()
        #expect(requests.map(\.request) == [.scan(from: DownloadCursor(serverVersion: 1))])
        rig.submit(requests)
        #expect(try nextDownload(on: reader) == 2)
    }

    @Test("who has not said that it has the last one has to ask for the next one")
    func unacknowledged() throws {
        let writer = try join(), reader = try join()
        commit(1, from: writer)
        #expect(try nextDownload(on: reader) == 1)
        commit(2, from: writer)
        #expect(try nextDownload(on: reader) == nil)
        let requests = reader.wire.takeRequests()
        #expect(requests.map(\.request) == [.scan(from: DownloadCursor(serverVersion: 1))])
        rig.submit(requests)
        #expect(try nextDownload(on: reader) == 2)
        commit(3, from: writer)
        #expect(try nextDownload(on: reader) == 3)
    }

    @Test("who is behind has to ask")
    func behind() throws {
        let writer = try join()
        commit(1, from: writer)
        let reader = rig.connect(try Negotiation(offer: WebSocketClient.offer))
        reader.wire.receive(Array("bind 1 2 0 1 0\n/f".utf8))
        rig.submit(reader.wire.takeRequests())
        guard case .message(let message)? = reader.wire.next() else { return #expect(Bool(false)) }
        let ident = SyncMessage(message.bytes).words.dropFirst(2)
        reader.wire.receive(Array("ident 1 \(ident.joined(separator: " ")) 0 0 0 0\n".utf8))
        rig.submit(reader.wire.takeRequests())
        commit(2, from: writer)
        #expect(reader.wire.next() == nil)
        #expect(reader.wire.takeRequests().map(\.request) == [.scan(from: DownloadCursor())])
    }
}
