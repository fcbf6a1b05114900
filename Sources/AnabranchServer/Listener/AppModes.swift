import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Synchronization

/// The kind of sync of each app: that of the settings or, in development, that of the app's first client. The store
/// remembers it by the paths of its files.
final class AppModes: Sendable {
    private let settings: ServerSettings
    private let store: any HistoryStore
    private let decided = Mutex<[ExactString: SyncMode]>([:])

    init(_ settings: ServerSettings, store: any HistoryStore) {
        self.settings = settings
        self.store = store
    }

    /// - Parameter offered: the mode that the client came with.
    /// - Returns: the mode of the app, from now on.
    func mode(ofApp app: String, offered: SyncMode) -> SyncMode {
        guard settings.takesModeOfFirstClient, !app.isEmpty, !settings.flexibleApps.contains(exactly: app) else {
            return settings.flexibleApps.contains(exactly: app) ? .flexible : .partition
        }
        return decided.withLock { decided in
            let mode = decided[ExactString(app)] ?? remembered(of: app) ?? offered
            decided[ExactString(app)] = mode
            return mode
        }
    }

    /// True for the one file of a flexible app. Its path is the app's id, which has no slash, unlike all other paths.
    func isFlexible(_ path: VirtualPath) -> Bool {
        guard !path.bytes.contains(UInt8(ascii: "/")) else { return false }
        let app = String(decoding: path.bytes, as: UTF8.self)
        if settings.flexibleApps.contains(exactly: app) { return true }
        return settings.takesModeOfFirstClient
            && decided.withLock { $0[ExactString(app)] ?? remembered(of: app) } == .flexible
    }

    /// The mode by the files of an app; nil if there are none, or the store cannot be searched.
    private func remembered(of app: String) -> SyncMode? {
        let partitions = VirtualPath(app + "/")
        if (try? store.contains(VirtualPath(app))) == true { return .flexible }
        if (try? store.contains(partitions)) == true { return .partition }
        let next = try? (store as? any HistoryCatalog)?.files(after: partitions, countMax: 1).first?.path
        return next?.bytes.starts(with: partitions.bytes) == true ? .partition : nil
    }
}
