import AnabranchHistory
import AnabranchProtocol
import Testing

@testable import AnabranchServer

@Suite(.timeLimit(.minutes(1))) struct StoreThreadTests {
    @Test func everyJobAfterTheEndFails() async throws {
        let stores = StoreThreads(
            count: 1, waitingBytesMax: 0,
            makeRegistry: {
                FileRegistry(
                    store: InMemoryStore(), limits: Limits(), backlogBytesMax: 0, sharedBodiesBytesMax: 0,
                    metrics: SyncMetrics(), logger: .quiet, unixSeconds: { 1 })
            }, deliver: { _ in })
        try await stores.shutDown()
        for _ in 0..<2 {
            await #expect(throws: HistoryError(.storeFailed, "")) {
                try await stores.run(on: VirtualPath("/f")) { _ in }
            }
        }
    }
}
