import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchServer

@Suite struct SharedBodiesTests {
    /// Nothing that could be deflated.
    private static let changeset = {
        var random = SeededRandom(seed: 1)
        return (0..<10_000).map { _ in UInt8.random(in: 0...255, using: &random) }
    }()

    private static func download(after cursor: DownloadCursor) -> Download {
        let end = DownloadCursor(serverVersion: cursor.serverVersion + 1)
        let tag = OriginTag(timestamp: 1, ident: 2)
        return Download(
            progress: DownloadProgress(
                cursor: end, latest: SaltedVersion(version: end.serverVersion, salt: 1), upload: UploadCursor(),
                downloadableBytes: 0),
            changesets: [DownloadedChangeset(cursor: end, tag: tag, changeset: changeset)])
    }

    /// As many clients as there are, and one body for each place; the same cursor is two places in two generations.
    @Test func aBodyIsEncodedOnceForAllReadersOfALineage() {
        let count = Mutex(0), bodies = SharedBodies(bytesMax: 1 << 20) { count.withLock { $0 += 1 } }
        for lineage in [Lineage.log, .generation(5), .generation(9)] {
            for _ in 0..<100 {
                for version in 0..<2 as Range<UInt64> {
                    let cursor = DownloadCursor(serverVersion: ServerVersion(version))
                    _ = bodies.body(
                        of: Self.download(after: cursor), after: cursor, file: SyncedFileID(7), in: lineage, .all,
                        limits: Limits())
                }
            }
        }
        #expect(count.withLock { $0 } == 6)
    }

    @Test func theOldestBodiesGoWhenThereAreTooManyBytes() {
        let file = SyncedFileID(7)
        let bodies = SharedBodies(bytesMax: 100_000)
        for version in 0..<100 as Range<UInt64> {
            let cursor = DownloadCursor(serverVersion: ServerVersion(version))
            let body = bodies.body(of: Self.download(after: cursor), after: cursor, file: file, .all, limits: Limits())
            #expect(body.count > 0)
        }
        #expect(Set(bodies.keys.map(\.serverVersion.rawValue)) == Set(92...100))
    }

    @Test func aBodyThatIsWantedStays() {
        let file = SyncedFileID(7), first = DownloadCursor()
        let count = Mutex(0), bodies = SharedBodies(bytesMax: 100_000) { count.withLock { $0 += 1 } }
        for version in 0..<100 as Range<UInt64> {
            for cursor in [first, DownloadCursor(serverVersion: ServerVersion(version))] {
                _ = bodies.body(of: Self.download(after: cursor), after: cursor, file: file, .all, limits: Limits())
            }
        }
        #expect(count.withLock { $0 } == 100)
        #expect(bodies.keys.map(\.from).contains(first) && bodies.keys.count <= 9)
    }
}
