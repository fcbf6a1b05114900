import AnabranchCore
import AnabranchRealmFile
import ArgumentParser
import CommandSupport

/// `anabranch realm-file info`: what kind of Realm file a file is.
struct RealmFileInfoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "info",
        abstract: "Print what a Realm file is: format, classes, whether it is synced, what was never uploaded.",
        discussion: """
            The file does not say which user, app and server it is of, nor the value of its partition. The app and the \
            user are printed if the path has them, as that of a file on a device does: mongodb-realm/APP/USER/.

            EXAMPLES
              anabranch realm-file info notes.realm
              anabranch realm-file info notes.realm --key-file notes.key --json \\
                  | jq .sync.pending
            """)

    @OptionGroup var options: RealmFileOptions

    @Flag(help: "Print a JSON object, with the changes that wait for upload.")
    var json = false

    func run() throws { try run { print($0) } }

    /// - Parameter output: takes a line.
    func run(output: (String) -> Void) throws {
        let (file, information, state) = try options.read { file in
            let information = try file.information(salvages: options.salvage)
            return (file, information, try Self.syncState(of: file, salvages: options.salvage))
        }
        let notSeen = (information.notSeen + (state?.state?.notSeen ?? [])).reduce(into: [String]()) { found, what in
            if !found.contains(what) { found.append(what) }
        }
        if json {
            output(members(of: file, information, state, notSeen).encoded)
        } else {
            lines(of: file, information, state).forEach(output)
        }
        let problems = information.problems + (state?.damage ?? [])
        options.tell(problems, count: problems.count, notSeen: notSeen)
        if !problems.isEmpty { throw ExitCode.failure }
    }

    /// The state of the synchronization, or the reason why it cannot be read.
    private struct SyncStatus {
        var state: RealmFileSyncState?
        var problem: RealmFileError?

        /// The reasons why changes that wait for upload cannot be read.
        var unreadable: [RealmFileError] {
            (state?.pending ?? []).compactMap { change in
                if case .unreadable(let error) = change.content { error } else { nil }
            }
        }

        /// The damaged parts, which are left out.
        var damage: [RealmFileError] { (unreadable + [problem].compactMap(\.self)).filter { $0.code == .damaged } }
    }

    private static func syncState(of file: RealmFile, salvages: Bool) throws -> SyncStatus? {
        guard file.history == .syncClient else { return nil }
        do throws(RealmFileError) {
            return SyncStatus(state: try file.syncState(salvages: salvages))
        } catch {
            guard error.code == .format || error.code == .damaged && salvages else { throw error }
            return SyncStatus(problem: error)
        }
    }

    // MARK: For people

    private func lines(
        of file: RealmFile, _ information: RealmFile.Information, _ status: SyncStatus?
    ) -> [String] {
        var lines = [
            "format   \(file.format) (\(Self.writers[file.format] ?? "never written"))",
            "version  \(file.version)\(file.isStreaming ? ", a copy that was not opened for writing since" : "")",
            "history  \(Self.words(file.history))",
        ]
        if let app = pathParts {
            lines.append("path     of the app \(app.app) and the user \(app.user)")
        }
        if let status { lines += syncLines(status, isFlexible: information.isFlexible) }
        if information.hasUnfinishedDownload {
            lines.append("download data were downloaded that are not in the classes yet: these are not complete")
        }
        let width = information.classes.map(\.name.count).max() ?? 0
        for found in information.classes {
            let padding = String(repeating: " ", count: width - found.name.count)
            let kind = found.kind == .topLevel ? "" : found.kind == .embedded ? ", embedded" : ", asymmetric"
            lines.append(
                "class    \(found.name)\(padding)  \(counted(found.objectCount, "object")), "
                    + "\(found.propertyCount) \(found.propertyCount == 1 ? "property" : "properties")\(kind)")
        }
        return lines
    }

    private func syncLines(_ status: SyncStatus, isFlexible: Bool) -> [String] {
        let sync = isFlexible ? "sync     flexible" : "sync     a partition, whose value is not in the file"
        guard let state = status.state else {
            return [sync, "pending  cannot be read: \(status.problem.map { "\($0)" } ?? "")"]
        }
        let ident = state.clientFileIdent == 0 ? "it never connected" : "client file ident \(state.clientFileIdent)"
        let since = state.pending.first.map { ", the oldest of \($0.time.date)" } ?? ""
        let unreadable = status.unreadable.isEmpty ? "" : "; \(status.unreadable.count) cannot be read"
        return [
            "\(sync); \(ident)",
            "pending  \(counted(state.pending.count, "change")) never uploaded\(since)\(unreadable)",
        ]
    }

    /// The releases that write a format, as far as their release notes say.
    private static let writers = [
        10: "Realm Core 6: Cocoa 5, Java 7, JS 6, .NET 5",
        11: "Realm Core 6: Cocoa 5.4, Java 7.0.4, JS 6.1.1",
        20: "Realm Core 10: Cocoa, Java, JS and .NET 10.0",
        21: "Realm Core 11, before its release",
        22: "Realm Core 11 and 12: Swift 10.8, Java 10.6, JS 10.5, .NET 10.2, first releases for Kotlin and Flutter",
        23: "Realm Core 13: releases of 2023",
        24: "Realm Core 14, releases of 2024: Swift 10.49, JS 12.7, Flutter 2.0, Kotlin after 1.13",
    ]

    private static func words(_ history: RealmFile.History) -> String {
        switch history {
        case .none: "none, a local file"
        case .outside: "outside of the file, a local file"
        case .local: "local"
        case .syncClient: "that of a sync client"
        case .syncServer: "that of a Realm Object Server"
        case .unknown(let kind): "of the kind \(kind), which is not known"
        }
    }

    /// The app and the user, if the path is one on a device.
    private var pathParts: (app: String, user: String)? {
        let parts = options.file.split(separator: "/").map(String.init)
        guard let root = parts.lastIndex(of: "mongodb-realm"), root + 3 < parts.count else { return nil }
        return (parts[root + 1], parts[root + 2])
    }

    // MARK: For programs

    private func members(
        of file: RealmFile, _ information: RealmFile.Information, _ status: SyncStatus?, _ notSeen: [String]
    ) -> JSONValue {
        let classes = information.classes.map { found -> JSONValue in
            let kind = found.kind == .topLevel ? "top-level" : found.kind == .embedded ? "embedded" : "asymmetric"
            return [
                "name": .string(found.name), "kind": .string(kind), "objects": .integer(Int64(found.objectCount)),
            ]
        }
        var members: [String: JSONValue] = [
            "format": .integer(Int64(file.format)), "streaming": .bool(file.isStreaming),
            "version": .integer(Int64(file.version)), "history": .string(Self.name(file.history)),
            "history_schema": .integer(Int64(file.historyForm)), "classes": .array(classes),
            "other_tables": .array(information.otherTables.map(JSONValue.string)),
            "unfinished_download": .bool(information.hasUnfinishedDownload),
            "not_seen": .array(notSeen.map(JSONValue.string)),
            "problems": .array(information.problems.map { .string("\($0)") }),
        ]
        if let app = pathParts { (members["app"], members["user"]) = (.string(app.app), .string(app.user)) }
        if let state = status?.state {
            members["sync"] = state.json
            members["flexible"] = .bool(information.isFlexible)
        } else if let problem = status?.problem {
            members["sync"] = ["unreadable": .string("\(problem)")]
        }
        return .object(members)
    }

    private static func name(_ history: RealmFile.History) -> String {
        switch history {
        case .none: "none"
        case .outside: "out of Realm"
        case .local: "local"
        case .syncClient: "sync client"
        case .syncServer: "sync server"
        case .unknown: "unknown"
        }
    }
}
