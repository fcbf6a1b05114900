import AnabranchCore
package import AnabranchRules
public import Logging

/// Apps as they were exported from App Services, by their ids on this server: the permissions of flexible sync
/// (`Spec/FlexibleRules.md`). Each is read again when its folder changes.
public final class AppExports: Sendable {
    private let apps: [String: WatchedFile<AppExport>]

    /// Reads the folders.
    /// - Parameter directories: the folders, by the ids of the apps.
    /// - Throws: `FileError` with the mistake and its place.
    public init(directories: [String: String], logger: Logger) async throws {
        var apps: [String: WatchedFile<AppExport>] = [:]
        for (app, directory) in directories {
            apps[app] = try await WatchedFile(
                directory, logger: logger,
                paths: { try Self.paths(directory) }, read: { try Self.read(directory, of: app, logger) })
        }
        self.apps = apps
    }

    private static func paths(_ directory: String) throws(FileError) -> [String] {
        do {
            return try AppExport.paths(inDirectory: directory).map { "\(directory)/\($0)" }
        } catch {
            throw FileError(directory, error.withoutFile)
        }
    }

    private static func read(_ directory: String, of app: String, _ logger: Logger) throws(FileError) -> AppExport {
        let export: AppExport
        do { export = try AppExport(directory: directory) } catch {
            throw FileError(error.file == directory ? directory : "\(directory)/\(error.file)", error.withoutFile)
        }
        for notice in export.notices {
            logger.warning(
                "the app's export says what has no effect here, or less than it may seem",
                metadata: ["app": "\(app)", "notice": "\(notice)"])
        }
        return export
    }

    /// The export that was read last; nil for an app without a folder.
    package func export(of app: String) -> AppExport? { apps[exactly: app]?.current }

    /// Reads changed folders again. A folder with a mistake changes nothing.
    /// - Returns: the apps whose exports have changed.
    func refresh() async -> [String] {
        var changed: [String] = []
        for (app, folder) in apps where await folder.refresh() { changed.append(app) }
        return changed
    }
}

extension RuleError {
    fileprivate var withoutFile: String { place.isEmpty ? reason : "\(place): \(reason)" }
}
