import AnabranchChunks
import AnabranchCore
package import AnabranchHistory
import AnabranchServer
import Logging
import NIOPosix

/// The removal of chunks that no file uses, and of old files in the trash.
extension FilesWire {
    private static let daySeconds: UInt64 = 86_400
    /// How many records one commit changes, and how many chunks are looked at for it, each of which may have a file
    /// with 100,000 chunks.
    private static let (pageCount, chunkCount) = (500, 50)
    /// How many files of a chunk are looked at once an hour.
    private static let usersMax = 100

    /// Looks at everything once an hour, until its task is cancelled.
    package func maintain() async {
        repeat {
            await sweepAll()
        } while (try? await Task.sleep(for: .seconds(3_600))) != nil
    }

    /// Looks at every synced file that has a file space, or has had a chunk.
    package func sweepAll() async {
        for path in await spaces() {
            do {
                try await sweep(path)
            } catch {
                logger.warning("files: nothing is cleared", metadata: ["path": "\(path)", "error": "\(error)"])
            }
        }
    }

    /// Those of the apps that are served, in the order of their paths, and then those of which only chunks are known.
    /// None is opened.
    private func spaces() async -> [VirtualPath] {
        let catalog = catalog, place = FileRecord.position.place()
        var known: [VirtualPath] = []
        do {
            known = try await NIOThreadPool.singleton.runIfActive { [self] in
                var paths: [VirtualPath] = []
                try catalog.forEachPath { if app(of: $0) != nil { paths.append($0) } }
                return try paths.filter { path in
                    guard let id = try catalog.id(of: path) else { return false }
                    return try catalog.read(id) { view throws(HistoryError) in try view.record(at: place) } != nil
                }
            }
        } catch {
            logger.warning("files: the store cannot be listed", metadata: ["error": "\(error)"])
        }
        let seen = Set(known), stored = (try? await store.paths()) ?? []
        return known + stored.filter { app(of: $0) != nil && !seen.contains($0) }
    }

    /// Removes what is no longer needed of a synced file.
    package func sweep(_ path: VirtualPath) async throws {
        try await eraseTrash(of: path)
        try await removeChunks(of: path)
        try await removeUnknown(of: path)
        try await repairLoops(of: path)
    }

    /// Erases what has been in the trash for long enough, if every client knows that it is there: an edit that was made
    /// without that knowledge would be lost.
    private func eraseTrash(of path: VirtualPath) async throws {
        guard let app = app(of: path), let seen = try await server().versionSeenByAll(of: path) else { return }
        let now = unixSeconds(), kept = UInt64(clamping: app.trashDays) * Self.daySeconds
        try await forEachPage(of: .trash, in: path) { transaction, records, page in
            var children: [UUIDBytes: Int]?
            for record in page {
                guard let name = SpaceObjectKey(record.place.key), let row = PendingRecords.trash(record.value),
                    row.since + kept <= now, row.version <= seen,
                    let object = try transaction.object(name.className, key: .uuid(name.key))
                else { continue }
                if name.isFolder {
                    // A folder in which something is, in the trash or not, goes when that has gone.
                    let counts = try children ?? transaction.state.childCounts()
                    children = counts
                    guard counts[name.key] == nil else { continue }
                }
                try transaction.delete(object)
            }
        }
    }

    private func removeChunks(of path: VirtualPath) async throws {
        let now = unixSeconds(), kept = UInt64(clamping: settings.unusedDays) * Self.daySeconds, store = store
        try await forEachPage(of: .chunk, in: path, count: Self.chunkCount) { transaction, records, page in
            for record in page {
                guard let hash = ChunkHash(bytes: record.place.key), let row = PendingRecords.chunk(record.value),
                    row.goesAt(keptSeconds: kept) <= now,
                    try !Self.isUsed(hash, transaction.state, &records, now: now)
                else { continue }
                // If the commit fails, the chunk counts as missing, which nobody needs.
                try store.remove(hash, of: path)
                try records.set(nil, of: hash)
            }
        }
    }

    /// True if a file uses a chunk. One whose last use has ended unnoticed counts as used until now.
    private static func isUsed(
        _ hash: ChunkHash, _ state: ObjectGraph, _ records: inout PendingRecords, now: UInt64
    ) throws -> Bool {
        let users = try records.users(of: hash, countMax: usersMax)
        for file in users {
            let content = try state.spaceObject(SpaceObjectKey(isFolder: false, key: file))
            if content?.chunks.contains(hash) == true { return true }
            try records.setUse(hash, by: file, false, now: now)
        }
        return !users.isEmpty
    }

    /// Removes what was stored, and of which there is no record since a day, because a crash came between.
    private func removeUnknown(of path: VirtualPath) async throws {
        let time = max(Self.daySeconds, unixSeconds()) - Self.daySeconds, store = store
        for chunk in try await store.chunks(of: path, putBefore: time) {
            _ = try await read(path) { _, records in
                if try records.chunk(chunk) == nil { try store.remove(chunk, of: path) }
            }
        }
    }

    /// Has `body` look at all records of a kind, and change what it likes, in commits of a page each.
    private func forEachPage(
        of kind: FileRecord, in path: VirtualPath, count: Int = pageCount,
        _ body: @escaping @Sendable (WriteTransaction, inout PendingRecords, [DoorRecord]) throws -> Void
    ) async throws {
        var after: [UInt8] = []
        while true {
            let range = kind.range(after: after)
            let page = try await read(path) { try $1.records(in: range, countMax: count) } ?? []
            guard let last = page.last else { return }
            try await write(path) { try body($0, &$1, page) }
            after = last.place.key
        }
    }
}

extension ObjectGraph {
    /// How many files and folders, in the trash or not, are in each folder that is not empty. All are looked at.
    fileprivate func childCounts() throws -> [UUIDBytes: Int] {
        var counts: [UUIDBytes: Int] = [:]
        for isFolder in [false, true] {
            try forEachSpaceObject(isFolder: isFolder) { if let parent = $1.parent { counts[parent, default: 0] += 1 } }
        }
        return counts
    }
}
