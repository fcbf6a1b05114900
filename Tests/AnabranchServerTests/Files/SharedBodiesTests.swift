import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Testing

@testable import AnabranchServer

@Suite struct SharedBodiesTests {
    private static func batch(after cursor: DownloadCursor) -> DownloadBatch {
        let version = cursor.serverVersion + 1
        return DownloadBatch(
            cursor: DownloadCursor(serverVersion: version), latestVersion: version, latestVersionSalt: 1,
            uploadCursor: UploadCursor(), downloadableBytes: 0,
            entries: [
                AnabranchHistory.DownloadEntry(
                    serverVersion: version, clientVersion: 0, timestamp: 1, origin: 2, originalSize: 1, changeset: [0])
            ])
    }

    @Test func keysTakeMemoryAsBodiesDo() {
        let path = VirtualPath([UInt8](repeating: 7, count: 10_000))
        var bodies = SharedBodies(bytesMax: 100_000)
        for version in 0..<100 as Range<UInt64> {
            let cursor = DownloadCursor(serverVersion: version)
            let body = bodies.body(of: Self.batch(after: cursor), after: cursor, path: path, limits: Limits())
            #expect(body.count > 0)
        }
        #expect(Set(bodies.bodies.keys.map(\.serverVersion)) == Set(92...100))
    }
}
