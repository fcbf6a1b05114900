import AnabranchHistory
import Dispatch
import Logging
import NIOPosix

extension SyncServer {
    /// Has the synced files maintained that nobody opens, at the start and once a day, if the store has a catalog.
    func maintainEveryDay(_ files: FileQueues) async {
        guard let catalog = store as? any HistoryCatalog else { return }
        let pass = MaintenancePass(files: files, catalog: catalog, logger: logger)
        await withTaskCancellationHandler {
            repeat {
                // Nobody expires by a clock that was not looked at.
                await note(files.environment.clock)
                await pass.run()
            } while (try? await Task.sleep(for: .seconds(86_400))) != nil
        } onCancel: {
            files.endLongMerges()
        }
    }

    /// Has the store free what it need no longer keep, at the start and once a day.
    func maintainStoreEveryDay(_ files: FileQueues) async {
        await withTaskCancellationHandler {
            repeat {
                // On a thread of its own: it waits for the disk, and for others that write.
                await withCheckedContinuation { continuation in
                    DispatchQueue.global(qos: .utility).async { [self] in
                        do {
                            try store.maintain(at: unixSeconds()) { !files.environment.isEnding }
                        } catch {
                            logger.warning("the store could not be maintained", metadata: ["error": "\(error)"])
                        }
                        continuation.resume()
                    }
                }
            } while (try? await Task.sleep(for: .seconds(86_400))) != nil
        } onCancel: {
            files.endLongMerges()
        }
    }

    /// Looks whether the clock has jumped.
    func noteClockEveryMinute(_ clock: MaintenanceClock) async {
        repeat { await note(clock) } while (try? await Task.sleep(for: .seconds(60))) != nil
    }

    private func note(_ clock: MaintenanceClock) async {
        try? await NIOThreadPool.singleton.runIfActive { clock.note() }
    }
}
