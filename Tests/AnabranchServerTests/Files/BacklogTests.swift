import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Testing

@testable import AnabranchServer

/// A synced file with so much waiting for integration that it takes nothing more (`Spec/History.md`, section 5, row
/// 12).
@Suite struct BacklogTests {
    @Test("after an upload that was refused nothing is integrated, and when the client comes again nothing is lost")
    func noGap() throws {
        let store = InMemoryStore()
        let rig = WireRig(store: store)
        var connection = rig.connect(try Negotiation(offer: WebSocketClient.offer))
        say("bind 1 2 0 1 0\n/f", on: connection)
        rig.run()
        let ident = try #require(
            connection.sent.first.map { SyncMessage($0) }?.words.dropFirst(2).joined(separator: " "))
        say("ident 1 \(ident) 0 0 0 0\n", on: connection)
        rig.run()

        // In one turn of the file, as when all of it had been received already.
        let changesets = [1_000, 1 << 20, 1_000].map { Changesets.large($0, seed: 1) }
        for (version, changeset) in zip(2..., changesets) { upload(changeset, version, on: connection) }
        rig.submit(connection.wire.takeRequests())
        rig.run()
        #expect(connection.isOver)
        let error = try #require(connection.sent.last.map { SyncMessage($0) })
        #expect(error.words.prefix(2) == ["json_error", "100"])

        connection = rig.connect(try Negotiation(offer: WebSocketClient.offer))
        say("bind 1 2 0 0 0\n/f", on: connection)
        say("ident 1 \(ident) 0 0 0 0\n", on: connection)
        rig.run()
        let download = try #require(connection.sent.last.flatMap { ReceivedDownload(SyncMessage($0)) })
        #expect(download.progress.upload.clientVersion == 2 && download.progress.latest.version == 1)
        for (version, changeset) in zip(2..., changesets).dropFirst() {
            upload(changeset, version, on: connection)
            rig.run()
        }
        #expect(try SyncedFile(path: VirtualPath("//f"), store: store).log().map(\.clientVersion) == [2, 3, 4])
    }

    private func say(_ text: String, on connection: RigConnection) { connection.wire.receive(Array(text.utf8)) }

    private func upload(_ changeset: [UInt8], _ version: Int, on connection: RigConnection) {
        let body = Array("\(version) 0 1 0 \(changeset.count) ".utf8) + changeset
        connection.wire.receive(Array("upload 1 0 \(body.count) 0 \(version) 0 0\n".utf8) + body)
    }
}
