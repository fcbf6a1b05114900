import AnabranchHistory
import Foundation
import Logging
import ServiceLifecycle

/// Has the store free what it need not keep any longer, at the start and once a day.
struct StoreMaintenance: Service {
    let store: any HistoryStore
    let logger: Logger

    func run() async {
        await cancelWhenGracefulShutdown {
            repeat {
                do {
                    try store.maintain(at: UInt64(max(1, Date().timeIntervalSince1970)))
                } catch {
                    logger.warning("the store could not be maintained", metadata: ["error": "\(error)"])
                }
            } while (try? await Task.sleep(for: .seconds(86_400))) != nil
        }
    }
}
