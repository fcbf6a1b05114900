import AnabranchHistory
import Foundation
import Logging
import ServiceLifecycle
import Synchronization

/// Has the store free what it need no longer keep, at the start and once a day.
final class StoreMaintenance: Service {
    private let store: any HistoryStore
    private let logger: Logger
    private let isEnding = Mutex(false)

    init(store: any HistoryStore, logger: Logger) {
        self.store = store
        self.logger = logger
    }

    func run() async {
        await cancelWhenGracefulShutdown { [self] in
            repeat {
                await withTaskCancellationHandler {
                    await maintain()
                } onCancel: {
                    isEnding.withLock { $0 = true }
                }
            } while (try? await Task.sleep(for: .seconds(86_400))) != nil
        }
    }

    /// Maintains the store on a thread of its own, since that waits for the disk, and for others that write.
    private func maintain() async {
        await withCheckedContinuation { continuation in
            DispatchQueue.global(qos: .utility).async { [self] in
                do {
                    let time = UInt64(max(1, Date().timeIntervalSince1970))
                    try store.maintain(at: time) { isEnding.withLock { !$0 } }
                } catch {
                    logger.warning("the store could not be maintained", metadata: ["error": "\(error)"])
                }
                continuation.resume()
            }
        }
    }
}
