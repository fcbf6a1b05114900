import AnabranchCore
import AnabranchHistory
@testable import AnabranchProtocol
import NIOCore
import NIOEmbedded
import Testing

@testable import AnabranchServer

/// The downloads that the sessions of one connection are given without asking for it (`Spec/Server.md`, section 4).
@Suite struct UnaskedDownloadTests {
    private static let sessions: ClosedRange<UInt64> = 1...20

    private static func frame(_ message: String) -> [UInt8] { WebSocketClient.frame(Array(message.utf8)) }

    /// A client with sessions that have everything.
    private static func connect() throws -> HandlerRig {
        let rig = try HandlerRig()
        for number in sessions {
            try rig.receive(Self.frame("bind \(number) 2 0 0 0\n/f"))
            try rig.receive(Self.frame("ident \(number) \(number) 77 0 0 0 0\n"))
        }
        rig.deliver([.identAccepted(DownloadCursor(), exposedVersion: 0)], to: sessions)
        for _ in sessions { rig.deliver([.download(.beginning, .empty)], to: sessions) }
        var downloads = 0
        while let message = try rig.message() { downloads += message.hasPrefix("download") ? 1 : 0 }
        #expect(downloads == sessions.count)
        return rig
    }

    private static func deliver(to rig: HandlerRig) {
        let progress = DownloadProgress(
            cursor: DownloadCursor(serverVersion: 1), latest: SaltedVersion(version: 1, salt: 5),
            upload: UploadCursor(), downloadableBytes: 0)
        rig.deliver([.download(progress, .empty)], to: sessions, follows: DownloadCursor())
    }

    @Test("as many as there are come at once, however few may be asked for at a time")
    func manySessions() async throws {
        #expect(Limits().downloadsUnderWayMax < Self.sessions.count)
        let rig = try Self.connect()
        Self.deliver(to: rig)
        for number in Self.sessions {
            #expect(try rig.message() == "download \(number) 1 0 1 5 0 0 0 0 0 0\n")
        }
        #expect(try rig.message() == nil)
        try await rig.files.shutDown()
    }

    @Test("a socket that takes nothing gets none")
    func fullSocket() async throws {
        let rig = try Self.connect()
        rig.channel.isWritable = false
        Self.deliver(to: rig)
        rig.channel.isWritable = true
        rig.channel.pipeline.fireChannelWritabilityChanged()
        #expect(try rig.message() == nil, "the sessions ask now")
        try await rig.files.shutDown()
    }
}
