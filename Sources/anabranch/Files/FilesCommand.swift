import AnabranchClient
import AnabranchCore
import AnabranchFiles
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch files`: a space of files and folders that are there offline.
struct FilesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "files",
        abstract: "Read and write synced files, and mirror folders.",
        discussion: """
            A space has the files and folders of a partition of an app whose configuration has `files: {}`. Names and \
            places are in the replica, as with `anabranch client`; contents are beside it, in a folder of its own. \
            Without --url the commands work on what is here; what is written waits. With --url they also upload what \
            waits, and bring what is asked for. What was begun goes on with the next call: no chunk of 4 MiB is sent \
            twice.

            Paths in the space begin with a slash. What is deleted goes to the trash, from which it can be restored \
            for 30 days unless the server is configured otherwise. If two devices write one file at once, the later \
            one counts, and the other becomes a file beside it, named after its device and day.

            EXAMPLES
              anabranch files put report.pdf /plans/report.pdf --data ./spaces \\
                  --path 'my-app/"files"' --url wss://sync.example.com --anonymous
              anabranch files ls /plans --data ./spaces --path 'my-app/"files"'
              anabranch files get /plans/report.pdf copy.pdf --data ./spaces \\
                  --path 'my-app/"files"' --url wss://sync.example.com
              anabranch files mirror ./plans --data ./spaces --path 'my-app/"files"' \\
                  --url wss://sync.example.com
            """,
        subcommands: [
            FilesList.self, FilesGet.self, FilesPut.self, FilesMakeFolder.self, FilesMove.self, FilesRemove.self,
            FilesRestore.self, FilesWatch.self, FilesMirror.self,
        ])
}

/// The options that all commands about files have.
struct FilesOptions: ParsableArguments {
    @OptionGroup var client: ClientOptions

    @Flag(help: "Print JSON, one object a line.")
    var json = false

    @Flag(help: "Report progress also where standard error is no terminal.")
    var progress = false

    func validate() throws {
        guard let path = client.path else { return }
        let target = try ClientTarget(path)
        guard !target.app.isEmpty, target.partition != nil else {
            throw ValidationError("--path has to name an app and a partition, as in 'my-app/\"files\"'.")
        }
    }
}

/// The space of a command.
struct OpenSpace: Sendable {
    let space: FileSpace
    let options: FilesOptions
    let started: StartedClient
    private let replica: ClientReplica
    private let route: (any RouteProvider)?

    /// Opens the space, connects it if there is a server, and closes it after `body`.
    static func with<Result: Sendable>(
        _ options: FilesOptions, _ body: @Sendable (OpenSpace) async throws -> Result
    ) async throws -> Result {
        let client = options.client, target = try client.target()
        MemoryAllocation.giveBackWhatIsFree()
        // The user is stored there as well.
        _ = try client.fileInFolder()
        var service: FileService?, route: (any RouteProvider)?
        if let server = try client.server(), let text = target.partition,
            let partition = PartitionValue(extendedJSON: text.utf8)
        {
            var sender = NIOHTTPSender(tls: try client.tls())
            sender.answerBytesMax = FileService.answerBytesMax
            if let (app, user) = try await client.appUser(at: server) {
                service = FileService(app, user: user, partition: partition, sender: sender)
                route = AppRoute(app, user: user)
            } else {
                service = FileService(
                    server: server.baseURL, app: target.app, partition: partition, sender: sender)
                route = FixedRoute(server.route(to: target.app))
            }
        }
        let (madeService, madeRoute) = (service, route)
        return try await client.withReplica { replica in
            let store = try await SyncedStore(replica.replica, [])
            let file = try client.file()
            let folder = (file.hasSuffix(".replica") ? String(file.dropLast(8)) : file) + ".files"
            var settings = SpaceSettings()
            // What is copied is not kept as well.
            settings.policy = .manual
            let space = try await FileSpace(store, folder: folder, service: madeService, settings: settings)
            let open = OpenSpace(
                space: space, options: options, started: StartedClient(), replica: replica, route: madeRoute)
            do {
                let result = try await body(open)
                try await open.close()
                return result
            } catch {
                try? await open.close()
                throw error
            }
        }
    }

    var isOnline: Bool { route != nil }

    private func close() async throws {
        try await space.close()
        await started.client?.stop()
    }

    /// Connects, and waits until the names and places of the server are here; does nothing without a server.
    func bringNames() async throws {
        guard isOnline else { return }
        let store = space.store
        try await limited { try await store.wait(for: .download) }
    }

    /// Waits until the server has what was written here; does nothing without a server.
    func upload() async throws {
        guard isOnline else { return }
        let space = space
        let showing = show("uploaded")
        defer { showing.cancel() }
        try await limited { try await space.waitForUpload() }
    }

    /// Carries out what needs the server, which has to show some progress in the time that the options give.
    func limited<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result {
        let space = space, started = started, route = route, client = options.client, replica = replica.replica
        if await started.client == nil, let route {
            await started.set(try await client.connect(replica, by: route))
        }
        return try await self.replica.limited(
            started,
            progress: {
                let status = space.status
                return [UInt64(max(0, status.transferred)), UInt64(status.pendingFiles), space.localChunks]
            }, body)
    }

    /// Shows the progress of transfers until it is cancelled.
    func show(_ word: String) -> Task<Void, Never> {
        let space = space, isAsked = options.progress
        return Task {
            var line = ProgressLine(isAsked: isAsked)
            while (try? await Task.sleep(for: .milliseconds(250))) != nil {
                let status = space.status
                guard status.total > 0 else { continue }
                line.tell {
                    let done = Double(status.transferred) / Double(status.total), width = 24
                    let bar = String(repeating: "#", count: Int(done * Double(width)))
                    let rest = String(repeating: ".", count: width - bar.count)
                    return "[\(bar)\(rest)] \(Int(done * 100)) %, "
                        + "\(status.transferred >> 20) of \(status.total >> 20) MiB \(word)"
                }
            }
            line.end()
        }
    }
}

extension SpaceEntry {
    /// The entry as a line of JSON.
    var json: JSONValue {
        var members: [String: JSONValue] = [
            "path": .string(path.description), "key": .string(key.uuidString.lowercased()),
            "kind": isFolder ? "folder" : "file",
        ]
        if !isFolder { members["size"] = .integer(size) }
        if let modified { members["modified"] = .string(modified.formatted(.iso8601)) }
        if let contentID { members["content"] = .string(contentID) }
        return .object(members)
    }
}

extension FileStatus {
    /// The status in a word.
    var word: String {
        if let issue { return issue.kind == .awaited ? "not arrived" : "issue" }
        return switch state {
        case .uploading: "uploading"
        case .downloading: "downloading"
        case .idle: isPending ? "pending" : isCached ? "cached" : "at the server"
        }
    }
}
