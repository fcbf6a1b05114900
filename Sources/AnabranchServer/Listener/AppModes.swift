import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Synchronization

/// The kind of sync of each app: what the settings say, or, in development, what its first client came with. The store
/// remembers that by the paths of the files that it has.
final class AppModes: Sendable {
    private let settings: ServerSettings
    private let store: any HistoryStore
    private let decided = Mutex<[ExactString: SyncMode]>([:])

    init(_ settings: ServerSettings, store: any HistoryStore) {
        self.settings = settings
        self.store = store
    }

    /// - Parameter offered: what the client came with.
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

    /// The one file of a flexible app has the app's id as path, in which there is no slash, unlike in all others.
    func isFlexible(_ path: VirtualPath) -> Bool {
        guard !path.bytes.contains(UInt8(ascii: "/")) else { return false }
        let app = String(decoding: path.bytes, as: UTF8.self)
        if settings.flexibleApps.contains(exactly: app) { return true }
        return settings.takesModeOfFirstClient
            && decided.withLock { $0[ExactString(app)] ?? remembered(of: app) } == .flexible
    }

    /// What the files of an app say; nil if there are none, or if they cannot be looked for.
    private func remembered(of app: String) -> SyncMode? {
        let partitions = VirtualPath(app + "/")
        if (try? store.contains(VirtualPath(app))) == true { return .flexible }
        if (try? store.contains(partitions)) == true { return .partition }
        let next = try? (store as? any HistoryCatalog)?.files(after: partitions, countMax: 1).first?.path
        return next?.bytes.starts(with: partitions.bytes) == true ? .partition : nil
    }
}
