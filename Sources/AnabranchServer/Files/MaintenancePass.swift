import AnabranchHistory
import Logging
import NIOPosix

/// The maintenance of synced files that nobody opens. One after another gets a round, in turns of its own, so that
/// there is one at a time, however many files there are.
struct MaintenancePass {
    private static let pageCount = 100

    let files: FileQueues
    let catalog: any HistoryCatalog
    let logger: Logger

    /// Maintains each file once, until the task is cancelled. A failure of one file does not stop the others.
    func run() async {
        files.updateConnected()
        do {
            var page: [CatalogFile] = []
            repeat {
                let last = page.last?.path
                page = try await NIOThreadPool.singleton.runIfActive { [catalog] in
                    try catalog.files(after: last, countMax: Self.pageCount)
                }
                for file in page where files.environment.options.history.mayBeDue(for: file.head) {
                    guard !Task.isCancelled else { return }
                    // It has been logged.
                    _ = try? await files.maintain(file.path)
                }
            } while page.count == Self.pageCount && !Task.isCancelled
        } catch is CancellationError {
            // The server ends.
        } catch {
            logger.warning("not all synced files could be maintained", metadata: ["error": "\(error)"])
        }
    }
}
