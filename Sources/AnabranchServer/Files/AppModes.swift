import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Logging
import Synchronization

/// The kind of sync of each app: that of the settings or, in development, that of the app's first change. The store
/// remembers it by the paths of its files; a file without a change, such as one that was only asked for, decides
/// nothing.
final class AppModes: Sendable {
    private let settings: ServerSettings
    private let store: any HistoryStore
    private let logger: Logger
    private let decided = Mutex<[ExactString: SyncMode]>([:])

    init(_ settings: ServerSettings, store: any HistoryStore, logger: Logger) {
        self.settings = settings
        self.store = store
        self.logger = logger
    }

    /// The mode of an app; nil while, in development, no change has decided it: then clients of both may come.
    func mode(ofApp app: String) -> SyncMode? {
        if settings.flexibleApps.contains(exactly: app) { return .flexible }
        guard settings.takesModeOfFirstClient, !app.isEmpty else { return .partition }
        return decided.withLock { decided in
            let mode = decided[ExactString(app)] ?? remembered(of: app)
            decided[ExactString(app)] = mode
            return mode
        }
    }

    /// True for the one file of a flexible app, or of one that may become flexible. Its path is the app's id, which has
    /// no slash, unlike all other paths.
    func isFlexible(_ path: VirtualPath) -> Bool {
        path.partition == nil && mode(ofApp: path.app) != .partition
    }

    /// Called when a file has its first change: in development that of its app's first file decides.
    func decide(by path: VirtualPath) {
        let app = path.app, isFlexible = path.partition == nil
        guard settings.takesModeOfFirstClient, !app.isEmpty, !settings.flexibleApps.contains(exactly: app) else {
            return
        }
        let isFirst = decided.withLock { decided in
            guard decided[ExactString(app)] == nil else { return false }
            decided[ExactString(app)] = isFlexible ? .flexible : .partition
            return true
        }
        guard isFirst else { return }
        logger.notice(
            "the first change of an app has decided how it syncs: that changes when its files are deleted",
            metadata: [
                "app": "\(app)", "sync": "\(isFlexible ? "flexible" : "partition")",
                "command": "anabranch admin delete --yes --path '\(path.abbreviated)'",
            ])
    }

    /// Called when a file was deleted: the other files of its app say what the app is now.
    func forget(_ path: VirtualPath) { decided.withLock { $0[ExactString(path.app)] = nil } }

    /// The mode by the files of an app that have changes; nil if there are none, or the store cannot be searched.
    private func remembered(of app: String) -> SyncMode? {
        guard let catalog = store as? any HistoryCatalog else { return nil }
        if let file = try? catalog.file(VirtualPath(app)), file.head.cumulativeSize > 0 { return .flexible }
        let partitions = VirtualPath(app + "/")
        if let file = try? catalog.file(partitions), file.head.cumulativeSize > 0 { return .partition }
        var last = partitions
        while let files = try? catalog.files(after: last, countMax: 100), let end = files.last?.path {
            let own = files.prefix { $0.path.bytes.starts(with: partitions.bytes) }
            if own.contains(where: { $0.head.cumulativeSize > 0 }) { return .partition }
            guard own.count == files.count else { return nil }
            last = end
        }
        return nil
    }
}
