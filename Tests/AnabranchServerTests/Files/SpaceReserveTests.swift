import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchSQLite
import Foundation
import Testing

@testable import AnabranchServer

/// A disk that is nearly full takes no more, and shows what it has.
@Suite struct SpaceReserveTests {
    private static func withStore<Result>(_ body: (SQLiteStore) async throws -> Result) async throws -> Result {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("reserve-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        let store = try SQLiteStore(directory: directory.path)
        let result = try await body(store)
        try store.close()
        return result
    }

    /// No disk has so much free.
    @Test(arguments: [Int.max, 1]) func whatMakesTheStoreLargerIsRefused(_ bytesMin: Int) async throws {
        try await Self.withStore { store in
            let isLow = bytesMin == .max
            let rig = TurnRig(store: store, keepsState: true) { $0.reservedBytes = bytesMin }
            let client = try rig.join("//a", count: 1)[0]
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

    @Test func theServerIsNotReady() async throws {
        try await Self.withStore { store in
            for bytesMin in [Int.max, 1] {
                try await AppServicesRig.run(store: store) {
                    $0.freeBytesMin = bytesMin
                } _: { rig async throws in
                    let ready = try await rig.admin("GET", "/ready")
                    #expect(ready.status == (bytesMin == 1 ? 200 : 503))
                    if bytesMin > 1 { #expect(ready.json == ["status": "the disk is nearly full"]) }
                    let metrics = try await rig.admin("GET", "/metrics")
                    #expect(metrics.body.contains("\nanabranch_store_free_bytes "))
                }
            }
        }
    }
}
