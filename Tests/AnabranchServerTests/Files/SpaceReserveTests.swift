import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchSQLite
import Foundation
import Testing

@testable import AnabranchServer

/// A disk that is nearly full, or a store that has what it may hold, takes no more and shows what it has.
@Suite struct SpaceReserveTests {
    private static func withStore<Result>(_ body: (SQLiteStore) async throws -> Result) async throws -> Result {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("reserve-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        let store = try SQLiteStore(directory: directory.path)
        let result = try await body(store)
        try store.close()
        return result
    }

    /// What is to stay free, of which no disk has the most, and what the store may hold.
    private static let rooms: [(freeBytesMin: Int, storeBytesMax: Int)] = [
        (.max, .max), (1, 1), (1, 1 << 30), (1, .max),
    ]

    @Test(arguments: rooms)
    func whatMakesTheStoreLargerIsRefused(_ freeBytesMin: Int, _ storeBytesMax: Int) async throws {
        try await Self.withStore { store in
            let isLow = freeBytesMin == .max || storeBytesMax == 1
            let rig = TurnRig(store: store, keepsState: true) {
                $0.reservedBytes = freeBytesMin
                $0.storeBytesMax = storeBytesMax
            }
            let clients = try rig.join("//a", count: 2), client = clients[0], newClient = clients[1]
            rig.submit(.close, of: newClient)
            rig.submit(.open(BindRequest(partition: client.path.bytes, needsFileIdent: true)), of: newClient)
            rig.finish()
            #expect(newClient.errors.isEmpty, "without an ident nobody reads, the first time and after a reset")
            rig.submit(.close, of: newClient)
            let newPath = VirtualPath("//new"), bind = BindRequest(partition: newPath.bytes, needsFileIdent: true)
            rig.files.submit(
                FileRequest(
                    path: newPath, session: newClient.session, principal: Principal(app: ""), capabilities: .all,
                    request: .open(bind)))
            rig.finish()
            #expect(newClient.errors.map(\.code) == (isLow ? [.otherSessionError] : []))
            #expect(newClient.errors.allSatisfy { $0.triesAgain && $0.action == .transient })
            let progress = UploadCursor(clientVersion: 1, serverVersion: 0)
            rig.submit(.integrate(UploadMessage(Upload(progress: progress, changesets: []))), of: client)
            rig.submit(.scan(from: DownloadCursor()), of: client)
            rig.finish()
            #expect(client.errors.isEmpty && client.downloads.count == 1)
            rig.upload([TurnRig.object], from: 2, of: client)
            rig.finish()
            #expect(client.errors.map(\.code) == (isLow ? [.otherSessionError] : []))
            #expect(client.errors.allSatisfy { $0.triesAgain })
            let write = try? await withCheckedThrowingContinuation { continuation in
                let job = FileJob(comesAfterMerge: true) { file in
                    file?.write(idempotencyKey: nil, at: 9) {
                        try $0.addClass("U")
                    } _: {
                        continuation.resume(with: $0)
                    }
                }
                rig.files.submit(job, to: client.path)
                rig.finish()
            }
            #expect((write == nil) == isLow)
        }
    }

    /// In flexible sync a client's first IDENT has its first bootstrap stored.
    @Test func nothingIsStoredForAClientWithoutRoom() async throws {
        try await Self.withStore { store in
            let rig = TurnRig(store: store, keepsState: true) {
                $0.isFlexible = { _ in true }
                $0.storeBytesMax = 1
            }
            let client = try rig.join("pets", count: 1)[0]
            #expect(client.errors.map(\.code) == [.otherSessionError] && client.errors.allSatisfy { $0.triesAgain })
        }
    }

    @Test func aStoreThatCannotAnswerIsAsFullAsBefore() async throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("reserve-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        let store = try SQLiteStore(directory: directory.path), used = try #require(store.usedBytes)
        let space = SpaceReserve(store, freeBytesMin: 1, usedBytesMax: 1, answerDuration: .zero)
        let shortage = SpaceReserve.Shortage.store(bytes: used, bytesMax: 1)
        #expect(space.shortage == shortage)
        try store.close()
        #expect(store.usedBytes == nil)
        #expect(space.shortage == shortage && space.bytes.used == used)
    }

    @Test func aServerThatCannotCommitIsNotReady() async throws {
        let store = FragileStore()
        try await AppServicesRig.run(store: store) { rig async throws in
            #expect(try await rig.admin("GET", "/ready").status == 200)
            store.fail(.commit)
            #expect(try await rig.admin("GET", "/ready").status == 200, "it asks the store once a second")
            rig.clock.advance(by: 1)
            let ready = try await rig.admin("GET", "/ready")
            #expect(ready.status == 503 && ready.json == ["status": "the store takes no changes"])
            store.fail()
            rig.clock.advance(by: 1)
            #expect(try await rig.admin("GET", "/ready").status == 200)
        }
    }

    @Test func theServerIsNotReady() async throws {
        try await Self.withStore { store in
            let used = try #require(store.usedBytes), place = try #require(store.location)
            for (room, status) in zip(
                Self.rooms + [(1, used)],
                [
                    "free at \(place), and free-bytes wants 8.0 EiB",
                    "the databases have \(used.inBytes) in use, and store-bytes allows 1 B", nil, nil, nil,
                ])
            {
                try await AppServicesRig.run(store: store) {
                    $0.freeBytesMin = room.freeBytesMin
                    $0.storeBytesMax = room.storeBytesMax
                } _: { rig async throws in
                    let ready = try await rig.admin("GET", "/ready")
                    #expect(ready.status == (status == nil ? 200 : 503))
                    #expect(ready.json?["status"]?.string?.hasSuffix(status ?? "ready") == true, "\(ready.body)")
                    let metrics = try await rig.admin("GET", "/metrics")
                    #expect(metrics.body.contains("\nanabranch_store_free_bytes "))
                    #expect(metrics.body.contains("\nanabranch_store_used_bytes \(used)\n"))
                }
            }
        }
    }
}
