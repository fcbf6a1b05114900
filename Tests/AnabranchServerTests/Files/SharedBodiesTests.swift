import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Testing

@testable import AnabranchServer

@Suite struct SharedBodiesTests {
    private static func download(after cursor: DownloadCursor) -> Download {
        let end = DownloadCursor(serverVersion: cursor.serverVersion + 1)
        let tag = OriginTag(timestamp: 1, ident: 2)
        return Download(
            progress: DownloadProgress(
                cursor: end, latest: SaltedVersion(version: end.serverVersion, salt: 1), upload: UploadCursor(),
                downloadableBytes: 0),
            changesets: [DownloadedChangeset(cursor: end, tag: tag, changeset: [0])])
    }

    @Test func keysTakeMemoryAsBodiesDo() {
        let path = VirtualPath([UInt8](repeating: 7, count: 10_000))
        var bodies = SharedBodies(bytesMax: 100_000)
        for version in 0..<100 as Range<UInt64> {
            let cursor = DownloadCursor(serverVersion: ServerVersion(version))
            let body = bodies.body(of: Self.download(after: cursor), after: cursor, path: path, .all, limits: Limits())
            #expect(body.count > 0)
        }
        #expect(Set(bodies.bodies.keys.map(\.serverVersion.rawValue)) == Set(92...100))
    }
}
