import AnabranchChunks
package import Foundation

/// Keeps a folder of the disk equal to a space, both ways (`Spec/Files.md`, section 8).
///
/// It compares folder and space with their common content at the last comparison. A change on one side is made on the
/// other; if both sides have changed a file, both versions stay. Nothing outside the folder is touched, and no link is
/// followed.
package actor FolderMirror {
    /// Something that the mirror does, or does not do.
    package enum Report: Sendable {
        /// The space has got it from the folder.
        case up(String, SpacePath)
        /// The folder has got it from the space.
        case down(String, SpacePath)
        /// It is passed over, for this reason.
        case skipped(String, reason: String)
    }

    let space: FileSpace
    let root: String
    /// The folder itself at the start.
    private let rootStatus: stat
    /// The bytes that a comparison brings before the next one begins; the content by which there are so many is brought
    /// as well.
    let bytesAtOnce: Int64
    /// The time after which it looks at everything again while it runs: at files that stay open while they are written.
    let pause: Duration
    let tell: @Sendable (Report) -> Void
    var rows: MirrorRows
    /// How the folder is looked at.
    var place: FolderScan.Place
    /// The entries that the space may show otherwise, while the mirror runs.
    var shown: ShownChanges?
    /// True if the next comparison has to look at everything.
    var isAllDue = true
    /// The time at which everything is looked at in any case.
    var nextAll = ContinuousClock.now
    /// True while a comparison looks at some paths only.
    private var isPartial = false
    /// The keys of files whose contents come with the next comparison, or by themselves.
    var waiting: Set<UUID> = []
    /// The files that somebody has had open to write, and has closed, since the last comparison.
    var written: Set<SpacePath> = []
    /// True if they may be any: then everything is compared.
    var isAllWritten = false
    /// Rings when there is something to compare, while the mirror runs.
    var bell: Bell?
    /// The large content that comes by itself.
    var large: Large?
    /// Those that have come, and those that could not, by their ids.
    var largeEnds: [String: Bool] = [:]
    /// The keys of folders that the space has deleted, and that could not be removed here.
    var left: Set<UUID> = []
    /// The paths whose skipping was reported already.
    private var toldSkips: Set<String> = []
    /// The time when it began, in nanoseconds since 1970.
    private let began = Int64(Date.now.timeIntervalSince1970 * 1e9)
    /// The actions of this comparison.
    var actionCount = 0

    /// - Parameters:
    ///   - folder: made if it is missing. Then everything comes down, as into one that was never mirrored.
    ///   - database: the file that remembers what both have in common.
    ///   - bytesAtOnce: the bytes that come before it looks what else has changed.
    ///   - pause: the time after which it looks at everything again.
    ///   - mount: the number of the mount that a path is on. Tests, which may mount nothing, make it up.
    package init(
        _ space: FileSpace, folder: URL, database: String, bytesAtOnce: Int64 = 256 << 20,
        pause: Duration = .seconds(30),
        tell: @escaping @Sendable (Report) -> Void = { _ in },
        mount: @escaping @Sendable (String) -> UInt64 = { FolderMark.mount(of: $0) }
    ) throws {
        self.space = space
        let isThere = FileManager.default.fileExists(atPath: folder.path)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        root = folder.standardizedFileURL.resolvingSymlinksInPath().path
        guard let status = FolderScan.status(root), status.st_mode & S_IFMT == S_IFDIR else {
            throw SpaceError(.notFolder, "\(root) is not a folder")
        }
        rootStatus = status
        // Its inode may be that of the one that has gone.
        if !isThere { for end in ["", "-wal", "-shm"] { unlink(database + end) } }
        rows = try MirrorRows(database, folder: FolderMark.mark(of: root, status))
        self.bytesAtOnce = bytesAtOnce
        self.pause = pause
        self.tell = tell
        place = FolderScan.Place(root: root, mount: mount, watch: nil)
    }

    /// Compares and changes both until they are equal.
    /// - Throws: as `run`.
    package func settle() async throws {
        let claim = try FolderClaim(root)
        while try await compare() > 0 {}
        withExtendedLifetime(claim) {}
    }

    /// Compares folder and space once, and makes the necessary changes.
    /// - Returns: the number of changes that it made: none when both are equal.
    @discardableResult
    package func compare() async throws -> Int {
        (isAllDue, largeEnds) = (false, largeEnds.filter(\.value))
        if let news = place.watch?.beginAnew() { record(news) }
        _ = shown?.take()
        let place = place, start = ContinuousClock.now
        let scan = try await space.disk.run { try FolderScan(place) }
        // It is not to be what the mirror does most of the time.
        nextAll = .now + max(pause, (.now - start) * 50)
        return try await compare(scan, shown: nil)
    }

    /// Compares what was looked at.
    /// - Parameter shown: the keys of what the space may show otherwise; nil if that is everything.
    func compare(_ scan: FolderScan, shown: Set<UUID>?) async throws -> Int {
        actionCount = 0
        isPartial = shown != nil
        try checkRoot()
        for (path, reason) in scan.skipped { skip(path, reason) }
        // No other process mirrors the folder: these are of one that has ended.
        for draft in scan.drafts where draft.modified < began { unlink(draft.path) }
        // The mount hides what both had in common: nobody has deleted it.
        if !scan.mounts.isEmpty {
            for row in rows.byKey.values where scan.mounts.contains(where: { $0.contains(row.path) }) {
                try rows.remove(row.key)
            }
        }
        var keys = shown.map { $0.union(waiting).union(left).union(rows(in: scan).map(\.key)) }
        try rows.takeOver(scan.found)
        try await takeUp(scan)
        for path in scan.paths ?? [] { if let entry = try? space.info(path) { keys?.insert(entry.key) } }
        try await bringDown(keys, pastMounts: scan.mounts)
        return actionCount
    }

    /// The rows of what was looked at.
    private func rows(in scan: FolderScan) -> [MirrorRows.Row] {
        scan.paths.map { rows.rows(within: $0) } ?? Array(rows.byKey.values)
    }

    /// Has the next comparison look at everything, which follows at once if this one does not.
    func lookAtAll() {
        guard isPartial else { return }
        isAllDue = true
        actionCount += 1
    }

    /// - Throws: `SpaceError` if the folder has been replaced since the start.
    func checkRoot() throws(SpaceError) {
        let now = FolderScan.status(root)
        guard now?.st_dev == rootStatus.st_dev, now?.st_ino == rootStatus.st_ino else {
            throw SpaceError(.notFound, "\(root) is another folder than at the start of the mirror")
        }
    }

    func path(_ path: SpacePath) -> String { path.components.isEmpty ? root : "\(root)\(rows.spelled(path))" }

    func did(_ report: Report) {
        actionCount += 1
        tell(report)
    }

    func skip(_ path: String, _ reason: String) {
        // A failure of the system names the path itself.
        let reason = reason.hasPrefix("\(path): ") ? String(reason.dropFirst(path.count + 2)) : reason
        if toldSkips.insert(path).inserted { tell(.skipped(path, reason: reason)) }
    }

    // MARK: From the folder to the space

    private func takeUp(_ scan: FolderScan) async throws {
        let found = scan.found, (written, isAllWritten) = (written, isAllWritten)
        (self.written, self.isAllWritten) = ([], false)
        try forgetLeft(found)
        try await takeUpMoves(scan, isFolder: true)
        try await takeUpDeletions(replaced(by: found))
        let new = found.keys.sorted { $0.components.count < $1.components.count }
        for path in new where found[path]?.isFolder == true && rows.row(at: path)?.found != found[path] {
            try await attempt(path) {
                let known = try? self.space.info(path)
                if known == nil {
                    try await self.space.createFolder(path)
                    self.did(.up("created", path))
                }
                let entry = try self.space.info(path)
                guard entry.isFolder else { return try self.keepBeside(path) }
                guard let found = found[path] else { return }
                try self.rows.set(.init(key: entry.key, path: path, found: found, content: nil))
            }
        }
        try await takeUpMoves(scan, isFolder: false)
        for path in new {
            guard let now = found[path], !now.isFolder else { continue }
            let row = rows.row(at: path), isWritten = isAllWritten || written.contains(path)
            if let row, row.found == now {
                guard row.found.mayDiffer(from: now, isWritten: isWritten) else { continue }
                // One that is elsewhere in the space gets its place there first; here it would be a new one.
                guard (try? space.info(path))?.key == row.key else { continue }
            }
            try await attempt(path) {
                do {
                    try await self.takeUp(path, now)
                } catch let error as SpaceError {
                    if isWritten { self.written.insert(path) }
                    // Something that has changed or gone meanwhile is looked at again.
                    guard FolderScan.look(self.path(path)) == now else { return }
                    throw error
                }
            }
        }
        try await takeUpDeletions(
            rows(in: scan).filter {
                found[$0.path] == nil && FolderScan.isGone(path($0.path)) && !isHidden($0.path)
            })
    }

    /// Folders that were left are new if there is something new in them.
    private func forgetLeft(_ found: [SpacePath: FolderScan.Found]) throws {
        guard !left.isEmpty else { return }
        for (path, now) in found where rows.row(at: path)?.found != now {
            var next = path.parent
            while let folder = next {
                if let row = rows.row(at: folder), left.remove(row.key) != nil { try rows.remove(row.key) }
                next = folder.parent
            }
        }
    }

    /// True if something else has been mounted on a folder around a path since the scan began.
    func isHidden(_ path: SpacePath) -> Bool {
        var folder = path.parent
        while let around = folder, !around.components.isEmpty {
            let number = place.mount(self.path(around))
            if number != 0 { return number != place.mount(root) }
            folder = around.parent
        }
        return false
    }

    /// Moves in the space whatever has disappeared in one place and come in another, so that it stays the same file.
    private func takeUpMoves(_ scan: FolderScan, isFolder: Bool) async throws {
        let found = scan.found
        var gone: [UInt64: UUID] = [:]
        for row in rows(in: scan) where row.found.isFolder == isFolder && found[row.path] == nil {
            gone[row.found.inode] = row.key
        }
        let new = found.filter { $0.value.isFolder == isFolder }.sorted {
            $0.key.components.count < $1.key.components.count
        }
        for (path, now) in new where rows.row(at: path) == nil {
            guard let key = gone[now.inode], let row = rows.byKey[key], row.found == now, found[row.path] == nil,
                let entry = try space.entry(key), entry.path == row.path
            else { continue }
            // Out of sight, it may have another name here. In a folder that was read it is gone, even if the disk takes
            // the names for one.
            guard row.path.parent == path.parent || FolderScan.isGone(self.path(row.path)), !isHidden(row.path)
            else { continue }
            try await attempt(path) {
                try await self.space.move(row.path, to: path)
                try self.rows.move(row.path, to: path)
                self.did(.up("moved", path))
            }
        }
    }

    /// A file that is new, or that has changed.
    private func takeUp(_ path: SpacePath, _ now: FolderScan.Found) async throws {
        let row = rows.row(at: path), url = URL(fileURLWithPath: self.path(path))
        let entry = try? space.info(path)
        let isOther = entry?.key != row?.key || entry?.contentID != row?.content
        let own = isOther ? try entry.flatMap(takenUp) : nil
        if own == nil, isOther || row?.found == now, var row, row.chunks != nil {
            // Nothing is new here if what the folder has is the content that both had in common.
            let chunks = try await space.disk.run { try ContentCache.chunks(of: url) }
            if MirrorRows.hash(of: chunks) == row.chunks {
                row.found = now
                return try rows.set(row)
            }
        }
        if let entry, entry.isFolder { return try keepBeside(path) }
        // An empty content has nothing to lose: this process may have ended after it had made the file.
        if let entry, entry.size > 0, isOther {
            // Both sides have something new: that of the folder gets another name.
            guard let own else { return try await keepBoth(path, now, entry) }
            let former = FolderScan.Found(isFolder: false, inode: 0)
            try rows.set(.init(key: entry.key, path: path, found: former, content: own))
        }
        let isNew = entry == nil, begun = rows.begun
        let store: @Sendable (ContentCache) throws -> Manifest = { cache in
            let stored = try cache.store(contentsOf: url, followsLinks: false)
            do { try begun.record(path, stored.chunks) } catch {
                cache.release(stored.chunks)
                throw error
            }
            return stored
        }
        let file = try await (isNew ? space.create(path, store) : space.open(path))
        defer { file.close() }
        // The space may have got another one since.
        let base = SpaceTree.ContentNote(try file.content())
        guard isNew || base.text == entry?.contentID else {
            file.close()
            return try await takeUp(path, now)
        }
        // The folder has had the content before it, whether the cache has it or not.
        if !isNew { try await space.write(file, isSeen: true, store) }
        let content = try file.content()
        if content.id.description != row?.content { did(.up(row == nil ? "created" : "updated", path)) }
        try rows.set(.init(key: file.key, path: path, found: now, content: content))
    }

    /// The content that the space has from here, although no row says so.
    private func takenUp(_ entry: SpaceEntry) throws -> Manifest? {
        guard let content = space.newestContent(of: entry.key) else { return nil }
        return try rows.begun.isRecorded(entry.path, content.chunks) ? content : nil
    }

    private func keepBoth(_ path: SpacePath, _ now: FolderScan.Found, _ entry: SpaceEntry) async throws {
        let file = try space.open(path)
        defer { file.close() }
        let url = URL(fileURLWithPath: self.path(path)), content = try file.content()
        if content.chunks == (try await space.disk.run { try ContentCache.chunks(of: url) }) {
            return try rows.set(.init(key: entry.key, path: path, found: now, content: content))
        }
        // What the folder has keeps its name until the other can come.
        try await file.fetch()
        guard FolderScan.look(self.path(path)) == now else { return }
        try keepBeside(path)
    }

    /// Gives what the folder has another name, since the space has something else of that name. That comes down, and
    /// this goes up as new.
    func keepBeside(_ path: SpacePath) throws {
        let name = FileSpace.conflictName(path.name, space.settings.deviceName, space.settings.now())
        var target = (path.parent ?? .root).child(name), number = 2
        while FolderScan.isTaken(self.path(target)) {
            target = (path.parent ?? .root).child(SpaceTree.marked(name, "(\(number))"))
            number += 1
        }
        guard rename(self.path(path), self.path(target)) == 0 else { throw ContentCache.lastError(self.path(target)) }
        if let row = rows.row(at: path) {
            // A folder that was left stays one.
            if left.contains(row.key) { try rows.move(path, to: target) } else { try rows.remove(row.key) }
        }
        did(.up("kept beside the other", target))
    }

    /// The things that both had and that are gone here, since something of the other kind has their place or that of a
    /// folder around them.
    private func replaced(by found: [SpacePath: FolderScan.Found]) -> [MirrorRows.Row] {
        let places = found.filter { path, now in
            rows.row(at: path).map { $0.found.isFolder != now.isFolder } ?? false
        }
        .map(\.key.components)
        guard !places.isEmpty else { return [] }
        return rows.byKey.values.filter { row in places.contains { row.path.components.starts(with: $0) } }
    }

    private func takeUpDeletions(_ gone: [MirrorRows.Row]) async throws {
        for row in gone.sorted(by: { $0.path.components.count > $1.path.components.count }) {
            try await attempt(row.path) {
                let entry = try self.space.entry(row.key)
                // A file that was changed in between comes back, and a folder that is not empty stays. A content that
                // arrives brings its file back.
                let isUnchanged = entry?.contentID == row.content && entry?.path == row.path
                let inside = entry?.isFolder == true && isUnchanged ? try await self.space.list(row.path) : []
                let isEmpty = inside.allSatisfy { !$0.isFolder && $0.contentID == nil }
                if let entry, isUnchanged, isEmpty {
                    try await self.space.delete(entry.path)
                    self.did(.up("deleted", row.path))
                }
                try self.rows.remove(row.key)
            }
        }
    }

    /// Carries out one action. If it fails, that is reported, and it is tried again later.
    func attempt(_ path: SpacePath, _ body: () async throws -> Void) async throws {
        do {
            try await body()
        } catch let error as SpaceError {
            // What has gone from the space meanwhile is looked at again.
            guard error.code != .notFound else { return lookAtAll() }
            skip(self.path(path), error.reason)
            isAllDue = isAllDue || isPartial
        }
    }
}
