import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchSQLite
import Foundation
import Testing

@testable import AnabranchServer

/// What files keep in memory for their next change.
@Suite struct RecentFileTests {
    @Test("of the files that the server has written to, the last 32 keep their objects in memory")
    func serverWrites() throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("recent-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        let store = try SQLiteStore(directory: directory.path)
        let rig = WireRig(store: store)
        let connection = rig.connect(try Negotiation(offer: WebSocketClient.offer))
        let names = (10..<43).map { "/\($0)" }
        for (session, name) in zip(1..., names) {
            connection.wire.receive(Array("bind \(session) 3 0 0 0\n\(name)".utf8))
        }
        rig.run()
        let paths = names.map { VirtualPath("/" + $0) }
        for path in paths {
            _ = try rig.files.write(to: path, idempotencyKey: nil, at: 1) { tx in
                try tx.addClass("Note", key: "_id", .int)
                try tx.create("Note", key: 1)
            }
        }
        let loaded = try paths.map { path in
            try #require(rig.files.openFiles[path]).file.withState { $0.loadedCount }
        }
        #expect(loaded == [0] + Array(repeating: 1, count: 32))
        try store.close()
    }
}
