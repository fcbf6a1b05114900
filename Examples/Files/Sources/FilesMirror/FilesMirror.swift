import AnabranchClient
import AnabranchFiles
import Foundation

/// Keeps a folder equal to those of other machines: `FilesMirror FOLDER SERVER`. The folder `.mirror` in it has what is
/// needed for that. It goes on offline; what two machines have changed at once stays twice.
@main
struct FilesMirror {
    /// A file as folder and space have both had it.
    struct Known: Codable {
        var contentID: String?
        var modified: Date
    }

    let folder: URL
    let space: FileSpace
    var known: [String: Known] = [:]

    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        guard let path = arguments.first, let server = arguments.dropFirst().first else {
            print("usage: FilesMirror FOLDER SERVER, as in FilesMirror ./plans http://127.0.0.1:9090")
            exit(64)
        }
        var mirror = try await FilesMirror(URL(fileURLWithPath: path, isDirectory: true), server: server)
        try await mirror.run()
    }

    /// Opens the space with what is needed in the folder, and synchronizes it from now on.
    init(_ folder: URL, server: String) async throws {
        self.folder = folder.standardizedFileURL
        let own = folder.appendingPathComponent(".mirror", isDirectory: true)
        try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
        let app = try AppClient(
            appID: "my-app", baseURL: server, store: FileUserStore(path: own.appendingPathComponent("users").path))
        let user = try await app.logIn(.anonymous).id
        let store = try await SyncedStore(own.appendingPathComponent("store").path)
        space = try await FileSpace(
            store, folder: own.appendingPathComponent("contents").path,
            service: FileService(app, user: user, partition: "files"))
        let client = SyncClient(SyncConfiguration(AppRoute(app, user: user)))
        try await client.add(store, partition: "files")
        try await store.wait(for: .firstSync)
        if let stored = try? Data(contentsOf: own.appendingPathComponent("known")) {
            known = try JSONDecoder().decode([String: Known].self, from: stored)
        }
    }

    /// Compares folder and space once a second.
    mutating func run() async throws {
        while true {
            do {
                try await compare()
            } catch let error as SpaceError {
                print(error)  // It is tried again.
            }
            let stored = try JSONEncoder().encode(known)
            try stored.write(to: folder.appendingPathComponent(".mirror/known"), options: .atomic)
            try await Task.sleep(for: .seconds(1))
        }
    }

    private mutating func compare() async throws {
        for (path, modified) in try scan() { try await takeUp(SpacePath(path), modified) }
        // Files that are gone here, and have not changed there, go there.
        for (path, former) in known.sorted(by: { $0.key > $1.key }) where attributes(path) == nil {
            if let entry = try? space.info(SpacePath(path)), entry.contentID == former.contentID {
                try await space.delete(entry.path)
            }
            known[path] = nil
        }
        for entry in try space.everything() { try await bring(entry) }
        // Files that are gone there, and have not changed here, go here; a folder when it is empty.
        for (path, former) in known.sorted(by: { $0.key > $1.key })
        where (try? space.info(SpacePath(path))) == nil && modified(path) == former.modified {
            if former.contentID == nil { rmdir(url(path).path) } else { unlink(url(path).path) }
            known[path] = nil
        }
    }

    /// Gives the space what is new in the folder, or has changed there.
    private mutating func takeUp(_ path: SpacePath, _ modified: Date) async throws {
        let former = known["\(path)"], entry = try? space.info(path)
        if isFolder("\(path)") {
            if entry == nil, former == nil { try await space.createFolder(path) }
            if entry == nil, former != nil { return }
            known["\(path)"] = Known(contentID: nil, modified: modified)
            return
        }
        guard former?.modified != modified else { return }
        if let entry, entry.contentID != former?.contentID {
            // Both have changed: this one gets another name, and is new under that.
            let other = url("\(path) (of \(ProcessInfo.processInfo.hostName), \(UUID().uuidString.prefix(4)))")
            return try FileManager.default.moveItem(at: url("\(path)"), to: other)
        }
        let source = url("\(path)")
        let file = try await entry == nil ? space.create(path, contentsOf: source) : space.open(path)
        defer { file.close() }
        if entry != nil {
            try await file.fetch()
            try await file.write(contentsOf: source)
        }
        known["\(path)"] = Known(contentID: try space.info(path).contentID, modified: modified)
    }

    /// Gives the folder what is new in the space, unless it has changed here since.
    private mutating func bring(_ entry: SpaceEntry) async throws {
        let path = "\(entry.path)", now = modified(path)
        guard now == known[path]?.modified else { return }
        if entry.isFolder {
            guard now == nil else { return }
            try FileManager.default.createDirectory(at: url(path), withIntermediateDirectories: true)
        } else {
            guard entry.contentID != known[path]?.contentID else { return }
            let file = try space.open(entry.path)
            defer { file.close() }
            try await file.copy(to: url(path))
        }
        guard let now = modified(path) else { return }
        known[path] = Known(contentID: entry.contentID, modified: now)
    }

    // MARK: The folder

    private func url(_ path: String) -> URL { folder.appendingPathComponent(String(path.dropFirst())) }

    private func attributes(_ path: String) -> [FileAttributeKey: Any]? {
        try? FileManager.default.attributesOfItem(atPath: url(path).path)
    }

    private func isFolder(_ path: String) -> Bool {
        attributes(path)?[.type] as? FileAttributeType == .typeDirectory
    }

    /// When a file was changed; always the same for a folder.
    private func modified(_ path: String) -> Date? {
        isFolder(path) ? .distantPast : attributes(path)?[.modificationDate] as? Date
    }

    /// The files and folders, those first that are around others; no links, and nothing of this program.
    private func scan() throws -> [(String, Date)] {
        try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted().compactMap { name in
            let path = "/" + name, type = attributes(path)?[.type] as? FileAttributeType
            guard !path.hasPrefix("/.mirror"), type == .typeRegular || type == .typeDirectory else { return nil }
            return modified(path).map { (path, $0) }
        }
    }
}
