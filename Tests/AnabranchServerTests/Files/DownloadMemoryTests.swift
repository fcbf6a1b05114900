import AnabranchCore
import AnabranchHistory
@testable import AnabranchProtocol
import Synchronization
import Testing

@testable import AnabranchServer

/// Room for the bodies of DOWNLOADs (`Spec/Limits.md`, section 7).
@Suite struct DownloadMemoryTests {
    /// A file with entries of these sizes, and somebody who reads it from the beginning.
    private struct Fixture {
        let budget: MemoryBudget
        let file: SyncedFile
        let reader: ClientFileID
        let resubmitted = Resubmitted()

        final class Resubmitted: Sendable {
            let requests = Mutex<[FileRequest]>([])
            let waits = Mutex<[MemoryWait]>([])
        }

        init(_ sizes: [Int], budget: MemoryBudget) throws {
            self.budget = budget
            file = try SyncedFile(path: VirtualPath("//f"), store: InMemoryStore(), keepsState: false)
            let idents = try file.allocateIdents(for: [nil, nil], at: 1).map(\.ident)
            reader = idents[1]
            for (index, size) in sizes.enumerated() {
                let version = ClientVersion(rawValue: UInt64(index + 1))
                let cursor = UploadCursor(clientVersion: version, serverVersion: 0)
                try file.enqueue(
                    Upload(
                        progress: cursor, lockedVersion: 0,
                        changesets: [
                            UploadedChangeset(cursor: cursor, timestamp: 1, changeset: Self.changeset(of: size))
                        ]), from: idents[0])
                _ = try SyncedFile.integrate([file], at: 1)
            }
        }

        private static func changeset(of size: Int) -> [UInt8] {
            let overhead = Changesets.large(size - 100, seed: 1).count - (size - 100)
            return Changesets.large(size - overhead, seed: 1)
        }

        var memory: DownloadMemory {
            DownloadMemory(budget: budget) { [resubmitted] request in
                resubmitted.requests.withLock { $0.append(request) }
            }
        }

        func request(mayBeLong: Bool = true) -> FileRequest {
            FileRequest(
                path: VirtualPath("//f"),
                session: SessionKey(
                    connection: ConnectionID(number: 1), session: SessionHandle(ident: 1, serial: 1)),
                principal: Principal(app: ""), capabilities: .all, request: .scan(from: DownloadCursor()),
                mayBeLong: mayBeLong)
        }

        /// The sizes of the changesets of a DOWNLOAD from the beginning, and its permit; nil if it waits.
        func scan(_ request: FileRequest) throws -> (sizes: [Int], permit: MemoryPermit?)? {
            let outcome = try memory.download(
                file.downloads(for: reader), after: DownloadCursor(), for: request, bytesSoftMax: 4 << 20)
            switch outcome {
            case .made(let download, let permit): return (download.changesets.map(\.changeset.count), permit)
            case .waiting(let wait): resubmitted.waits.withLock { $0.append(wait) }
            }
            return nil
        }
    }

    private static let short = DownloadMemory.shortBytesMax

    @Test(arguments: [(-1, nil), (0, nil), (1, DownloadMemory.shortBytesMax + 1)])
    func aLongBodyNeedsAPermit(more: Int, permitted: Int?) throws {
        let fixture = try Fixture([Self.short + more], budget: MemoryBudget(bytesMax: 1 << 30))
        let (sizes, permit) = try #require(try fixture.scan(fixture.request()))
        #expect(sizes == [Self.short + more] && permit?.bytes == permitted)
        #expect(fixture.budget.bytesInUse == permitted ?? 0)
    }

    @Test func withoutRoomADownloadEndsEarlier() throws {
        let budget = MemoryBudget(bytesMax: 1_000)
        budget.reserve(1_000)
        let fixture = try Fixture([30_000, 35_536, 1_000], budget: budget)
        let (sizes, permit) = try #require(try fixture.scan(fixture.request()))
        #expect(sizes == [30_000, 35_536] && permit == nil)
        #expect(budget.waitingCount == 0)
    }

    @Test func aConnectionHasOneLongDownloadAtATime() throws {
        let fixture = try Fixture([30_000, 35_536, 1_000, 1_000], budget: MemoryBudget(bytesMax: 1 << 30))
        #expect(try fixture.scan(fixture.request())?.sizes == [30_000, 35_536, 1_000, 1_000])
        // The one that exceeds the limit is included.
        #expect(try fixture.scan(fixture.request(mayBeLong: false))?.sizes == [30_000, 35_536, 1_000])
    }

    @Test func theFirstOfSeveralDownloadsOfAConnectionMayBeLong() throws {
        let rig = WireRig(keepsState: false)
        let connection = rig.connect(try Negotiation(offer: WebSocketClient.offer))
        for session in 1...2 { connection.wire.receive(Array("bind \(session) 2 0 1 0\n/\(session)".utf8)) }
        rig.run()
        for ident in connection.sent.map({ SyncMessage($0) }) {
            connection.wire.receive(Array("ident \(ident.words.dropFirst().joined(separator: " ")) 0 0 0 0\n".utf8))
        }
        rig.submit(connection.wire.takeRequests())
        while let outbound = connection.wire.next() { connection.record(outbound) }
        let scans = connection.wire.takeRequests()
        #expect(scans.map(\.mayBeLong) == [true, false])
    }

    @Test func aChangesetThatIsTooLongComesBackWithItsPermit() throws {
        let budget = MemoryBudget(bytesMax: 200_000)
        budget.reserve(150_000)
        let fixture = try Fixture([100_000, 100_000], budget: budget)
        #expect(try fixture.scan(fixture.request()) == nil)
        #expect(budget.waitingCount == 1)
        budget.release(50_000)
        let resubmitted = fixture.resubmitted.requests.withLock { $0.popLast() }
        let request = try #require(resubmitted)
        #expect(request.cost == 0 && request.permit?.bytes == 100_000)
        let (sizes, permit) = try #require(try fixture.scan(request))
        #expect(sizes == [100_000] && permit?.bytes == 100_000)
        #expect(budget.bytesInUse == 200_000)
    }
}
