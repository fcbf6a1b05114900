import AnabranchChunks
import Foundation

/// From the space to the folder.
extension FolderMirror {
    /// The time for which a running mirror brings contents before it compares again.
    private static let timeAtOnce = Duration.seconds(1)

    /// - Parameter keys: of what may be otherwise than before; nil if that is everything.
    func bringDown(_ keys: Set<UUID>?, pastMounts mounts: Set<SpacePath>) async throws {
        let (entries, known) = try changes(keys), living = Set(entries.map(\.key))
        // First what makes room.
        let gone = known.filter { !living.contains($0.key) }
        for row in gone.sorted(by: { $0.path.components.count > $1.path.components.count }) {
            try await attempt(row.path) { try self.remove(row) }
        }
        var coming: [SpaceEntry] = []
        // What is below a mount has no folder with a row.
        for entry in entries where !mounts.contains(entry.path) {
            // The content of a folder that the disk cannot have is not told by itself.
            let folder = entry.path.parent ?? .root
            guard folder.components.isEmpty || rows.row(at: folder)?.found.isFolder == true else { continue }
            try await attempt(entry.path) {
                if let row = self.rows.byKey[entry.key], row.path != entry.path { try self.move(row, to: entry.path) }
                if entry.isFolder {
                    try self.makeFolder(entry)
                } else if self.rows.byKey[entry.key]?.content != entry.contentID {
                    coming.append(entry)
                }
            }
        }
        // No small one waits for a large one, and no other change for more than some of these. Those that had to wait
        // come first: others may take all of the time, and fail.
        let former = bell == nil ? [] : waiting
        func rank(_ entry: SpaceEntry) -> (Int, Int64) { (former.contains(entry.key) ? 0 : 1, entry.size) }
        let end = ContinuousClock.now + Self.timeAtOnce
        var byteCount: Int64 = 0, others: [SpaceEntry] = []
        for entry in coming.sorted(by: { rank($0) < rank($1) }) {
            let isInTime = byteCount < bytesAtOnce && (bell == nil || .now < end)
            guard isInTime, !comesByItself(entry) else {
                others.append(entry)
                continue
            }
            let before = actionCount
            try await attempt(entry.path) { try await self.bring(entry) }
            if actionCount > before { byteCount += entry.size }
            if let contentID = entry.contentID { largeEnds[contentID] = nil }
        }
        waiting = Set(others.map(\.key))
        beginLarge(others.filter(comesByItself))
    }

    /// The entries that may be otherwise in the space than before, and the rows of what both had in common of them.
    private func changes(_ keys: Set<UUID>?) throws -> (entries: [SpaceEntry], known: [MirrorRows.Row]) {
        guard let keys else { return (try space.everything(), Array(rows.byKey.values)) }
        let (entries, all) = try space.entries(of: keys) { rows.byKey[$0] != nil }
        return (entries, all.union(keys).compactMap { rows.byKey[$0] })
    }

    /// Removes what was deleted in the space, if it is as it was. A folder in which something is passed over, as a
    /// link, stays, and keeps its row, so that it does not count as new.
    private func remove(_ row: MirrorRows.Row) throws {
        let path = try safe(row.path), now = FolderScan.look(path)
        if row.found.isFolder {
            if now?.isFolder == true, rmdir(path) != 0 {
                guard errno == ENOTEMPTY || errno == EEXIST else { throw ContentCache.lastError(path) }
                left.insert(row.key)
                return
            }
        } else if let now, now == row.found {
            guard unlink(path) == 0 else { throw ContentCache.lastError(path) }
        } else if now != nil {
            // What has changed here is new at the next look.
            actionCount += 1
            lookAtAll()
        }
        if now != nil, !FolderScan.isTaken(path) { did(.down("deleted", row.path)) }
        try rows.remove(row.key)
        left.remove(row.key)
    }

    private func move(_ row: MirrorRows.Row, to target: SpacePath) throws {
        let path = try safe(row.path)
        guard let now = FolderScan.look(path), now.isFolder == row.found.isFolder, now.inode == row.found.inode else {
            return try rows.remove(row.key)
        }
        // Its folder may have been moved before.
        guard row.path != target else { return }
        let newPath = try safe(target)
        if let other = rows.row(at: target) { try setAside(other) }
        guard !FolderScan.isTaken(newPath) else { throw SpaceError(.exists, "something else has that name") }
        guard rename(path, newPath) == 0 else { throw ContentCache.lastError(newPath) }
        try rows.move(row.path, to: target)
        did(.down("moved", target))
    }

    /// Gives something that goes elsewhere another name until its turn comes: two may have exchanged theirs.
    private func setAside(_ row: MirrorRows.Row) throws {
        let path = try safe(row.path)
        guard !left.contains(row.key) else { return try keepBeside(row.path) }
        guard let now = FolderScan.look(path), now.isFolder == row.found.isFolder,
            now.inode == row.found.inode
        else { return }
        let folder = row.path.parent ?? .root
        let aside = folder.child(".\(UInt32.random(in: .min ... .max))\(FolderScan.draftEnding)")
        guard rename(path, self.path(aside)) == 0 else { throw ContentCache.lastError(path) }
        try rows.move(row.path, to: aside)
        lookAtAll()
    }

    private func makeFolder(_ entry: SpaceEntry) throws {
        // One that is gone from its place was removed since the scan: the next one takes that up.
        guard rows.byKey[entry.key] == nil else { return }
        let path = try safe(entry.path)
        try checkName(of: entry)
        // Two may have got one name: then the other has another one now, and its turn comes.
        if let other = rows.row(at: entry.path), other.key != entry.key, !left.contains(other.key) {
            try setAside(other)
        }
        if !FolderScan.isTaken(path) {
            guard mkdir(path, 0o777) == 0 else { throw ContentCache.lastError(path) }
            did(.down("created", entry.path))
        }
        guard let found = FolderScan.look(path), found.isFolder else {
            throw SpaceError(.notFolder, "something that is not a folder has that name")
        }
        try rows.set(.init(key: entry.key, path: entry.path, found: found, content: nil))
    }

    /// Looks whether the disk takes the name of something for that of another thing, as if it does not tell capital
    /// letters from small ones.
    private func checkName(of entry: SpaceEntry) throws {
        guard let found = FolderScan.look(path(entry.path)) else { return }
        let other = rows.byKey.values.first {
            $0.key != entry.key && $0.path != entry.path && $0.found.inode == found.inode
        }
        if let other { throw SpaceError(.exists, "the disk takes its name for that of \(other.path)") }
    }

    /// Brings a content that is new in the space.
    private func bring(_ entry: SpaceEntry) async throws {
        let path = try safe(entry.path), row = rows.byKey[entry.key]
        if row == nil { try checkName(of: entry) }
        if row == nil, let other = rows.row(at: entry.path), left.contains(other.key) { try setAside(other) }
        // What was written here since is taken up first.
        if FolderScan.isTaken(path), FolderScan.look(path) != row?.found || row == nil { return }
        let file = try space.open(entry.path)
        defer { file.close() }
        // Another one may have its place by now.
        guard file.key == entry.key else { return }
        // No scan takes it up, should this process end now.
        let folder = self.path(entry.path.parent ?? .root)
        let draft = "\(folder)/\(FolderScan.draftName())"
        defer { unlink(draft) }
        // Owner and rights stay, in so far as this process may give them away.
        let replaced = FolderScan.status(path), mode = (replaced?.st_mode ?? 0o666) & 0o777
        let old = replaced.map { _ in path }
        let content = try file.arrivedContent()
        let handle = try await file.write(content, to: draft, mode: mode, reusing: old)
        // A content that a failure of the power cut off would go up as an edit.
        try await space.disk.run { try ContentCache.flush(handle, draft) }
        if let replaced {
            // Often the group may be given where the owner may not.
            _ = chown(draft, .max, replaced.st_gid)
            _ = chown(draft, replaced.st_uid, .max)
            chmod(draft, mode)
        }
        guard var found = FolderScan.look(draft), try safe(entry.path) == path else { return }
        // Nobody else has written it.
        found.looked = .max
        let isAsBefore = FolderScan.isTaken(path) ? FolderScan.look(path) == row?.found && row != nil : true
        guard isAsBefore else { return }
        guard rename(draft, path) == 0 else { throw ContentCache.lastError(path) }
        try rows.set(.init(key: entry.key, path: entry.path, found: found, content: content))
        did(.down(row == nil ? "created" : "updated", entry.path))
    }

    /// The place of a path on the disk.
    /// - Throws: `SpaceError` if an enclosing folder is not a folder: through a link the path would lead elsewhere. So
    ///   it would if the folder of the mirror has been replaced, as during a long download.
    private func safe(_ path: SpacePath) throws -> String {
        try checkRoot()
        var folder = SpacePath.root
        for name in path.components.dropLast() {
            folder = folder.child(name)
            if FolderScan.isTaken(self.path(folder)), FolderScan.look(self.path(folder))?.isFolder != true {
                throw SpaceError(.notFolder, "\(self.path(folder)) is not a folder")
            }
        }
        guard !isHidden(path) else {
            lookAtAll()
            throw SpaceError(.notFolder, "another disk or folder is mounted around \(self.path(path))")
        }
        return self.path(path)
    }
}
