import AnabranchCore
import Foundation

/// An app as App Services exports it (`Spec/FlexibleRules.md`, section 8): a folder of JSON files.
package struct AppExport: Sendable {
    /// The app's id with App Services; nil if the export does not state it.
    package let appID: String?
    /// The permissions of its users.
    package let rules: Rules
    /// The classes.
    package let schema: AppSchema
    /// The settings of its sync.
    package let sync: SyncConfiguration
    /// The log-ins that are allowed, in the order of their names; nil if the export does not state them.
    package let providers: [String]?
    /// The notices for the operator: unknown files and keys, and requests of the app for features that do not exist
    /// here.
    package let notices: [AppNotice]

    /// Reads the files of an app.
    ///
    /// - Throws: `RuleError` for a file that cannot be read as intended.
    package init(files: [AppFile]) throws(RuleError) { try self.init(files: files, ofFolder: nil) }

    /// - Parameter folder: the folder of the files. Without flexible sync, or without any roles, it is the wrong one,
    ///   or is just being written.
    private init(files: [AppFile], ofFolder folder: String?) throws(RuleError) {
        var reader = AppReader(files)
        try reader.read()
        if let folder {
            func missing(_ what: String) -> RuleError {
                let reason = "this is not an exported app of flexible sync: it has no \(what)"
                return RuleError(file: folder, place: "", reason: reason)
            }
            guard reader.isFlexible else { throw missing("sync/config.json of type flexible") }
            if !reader.hasRules, let name = reader.sync.databaseName, !reader.otherDatabases.isEmpty {
                let others = reader.otherDatabases.sorted().map { "'\($0)'" }.joined(separator: ", ")
                let reason = "no roles for database '\(name)' of sync/config.json: data_sources has only \(others)"
                throw RuleError(file: folder, place: "", reason: reason)
            }
            guard reader.hasRules else { throw missing("roles") }
        }
        appID = reader.appID
        schema = try reader.schema()
        rules = try reader.rules(on: schema)
        sync = reader.sync
        providers = reader.providers?.sorted()
        notices = reader.notices.notices
    }

    /// Reads the files of a folder and of the folders in it.
    ///
    /// - Throws: `RuleError` for a file that cannot be read, or not as intended, and for a folder that has no
    ///   configuration of flexible sync, or no roles.
    package init(directory: String) throws(RuleError) {
        let root = URL(fileURLWithPath: directory, isDirectory: true).resolvingSymlinksInPath()
        var files: [AppFile] = []
        for path in try Self.paths(inDirectory: directory) { files.append(try Self.file(path, in: root)) }
        try self.init(files: files, ofFolder: directory)
    }

    /// The files of an app in a folder, by their paths in it, in order.
    ///
    /// - Throws: `RuleError` if there is no such folder.
    package static func paths(inDirectory directory: String) throws(RuleError) -> [String] {
        let root = URL(fileURLWithPath: directory, isDirectory: true).resolvingSymlinksInPath()
        let missing = RuleError(file: directory, place: "", reason: "this is not a folder that can be read")
        var isDirectory: ObjCBool = false
        guard FileManager.default.fileExists(atPath: root.path, isDirectory: &isDirectory), isDirectory.boolValue,
            let paths = FileManager.default.enumerator(atPath: root.path)
        else { throw missing }
        var found: [String] = []
        while let path = paths.nextObject() as? String {
            let name = path.split(separator: "/").last.map(String.init) ?? path
            let isFolder = paths.fileAttributes?[.type] as? FileAttributeType == .typeDirectory
            if name.hasPrefix(".") || name == "node_modules" {
                if isFolder { paths.skipDescendants() }
            } else if !isFolder {
                found.append(path)
            }
        }
        return found.sorted()
    }

    /// Of files that are not JSON only the name is needed.
    private static func file(_ path: String, in root: URL) throws(RuleError) -> AppFile {
        guard path.hasSuffix(".json") else { return AppFile(path: path, bytes: []) }
        do {
            return AppFile(path: path, bytes: try Data(contentsOf: root.appendingPathComponent(path)))
        } catch {
            throw RuleError(file: path, place: "", reason: "cannot be read: \(error.localizedDescription)")
        }
    }
}
