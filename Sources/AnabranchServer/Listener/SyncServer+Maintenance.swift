import AnabranchHistory
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
                await record(files.environment.clock)
                await pass.run()
            } while (try? await Task.sleep(for: .seconds(86_400))) != nil
        } onCancel: {
            files.endLongMerges()
        }
    }

    /// Has the store free what it need no longer keep, at the start and once a day.
    func maintainStoreEveryDay(_ files: FileQueues) async {
        // Of its own: it waits for the disk, and for others that write.
        let thread = NIOThreadPool(numberOfThreads: 1)
        thread.start()
        await withTaskCancellationHandler {
            repeat {
                do {
                    try await thread.runIfActive { [self] in
                        try store.maintain(at: unixSeconds()) { !files.environment.isEnding }
                    }
                } catch  where !files.environment.isEnding {
                    logger.warning("the store could not be maintained", metadata: ["error": "\(error)"])
                } catch {}
            } while (try? await Task.sleep(for: .seconds(86_400))) != nil
        } onCancel: {
            files.endLongMerges()
        }
        try? await thread.shutdownGracefully()
    }

    /// Looks whether the clock has jumped.
    func recordClockEveryMinute(_ clock: MaintenanceClock) async {
        repeat { await record(clock) } while (try? await Task.sleep(for: .seconds(60))) != nil
    }

    private func record(_ clock: MaintenanceClock) async {
        try? await NIOThreadPool.singleton.runIfActive { clock.record() }
    }
}
