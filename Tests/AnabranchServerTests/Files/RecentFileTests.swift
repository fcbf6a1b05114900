import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchSQLite
import Foundation
import Testing

@testable import AnabranchServer

/// The data that files keep in memory to make what comes next cheaper.
@Suite struct RecentFileTests {
    @Test("when files keep too much, those release it that had nothing to do for the longest time, and stay open")
    func release() throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("recent-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        let store = try SQLiteStore(directory: directory.path)
        let rig = TurnRig(store: store, keepsState: true) { $0.cachesBytesMax = 20_000 }
        let clients = try (0..<10).map { try rig.join("//\($0)", count: 1)[0] }
        for client in clients {
            rig.upload([TurnRig.object] + TurnRig.updates(20), of: client)
            rig.finish()
        }
        let kept = clients.map { rig.withFile($0.path) { $0.sessions?.file.cachedByteCount } ?? -1 }
        #expect(kept.reduce(0, +) <= 20_000)
        #expect(kept[0] == 0 && kept[9] > 0)
        #expect(kept == kept.filter { $0 == 0 } + kept.filter { $0 > 0 })
        rig.upload(TurnRig.updates(1), from: 22, of: clients[0])
        rig.finish()
        #expect(clients[0].version == 22 && clients[0].errors.isEmpty)
        try store.close()
    }
}
