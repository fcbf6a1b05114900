import Foundation

/// The comparisons of a mirror that runs: of all that has changed, as far as that is known by name.
extension FolderMirror {
    /// Keeps both equal until the task is cancelled.
    /// - Throws: `SpaceError` if another mirror has the folder, or it is replaced.
    package func run() async throws {
        let claim = try FolderClaim(root), bell = Bell(), changes = ShownChanges(bell), number = space.hub.add(changes)
        (place.watch, shown, self.bell, isAllDue) = (FolderWatch(bell), changes, bell, true)
        defer {
            space.hub.remove(number)
            large?.task.cancel()
            (place.watch, shown, self.bell) = (nil, nil, nil)
        }
        repeat {
            // What belongs together comes together.
            if !isWhole { try await Task.sleep(for: .milliseconds(50)) }
            while try await compareNews() > 0 { try Task.checkCancellation() }
        } while await bell.wait(atMost: place.watch?.isComplete == true ? max(.zero, nextAll - .now) : .seconds(1))
        withExtendedLifetime(claim) {}
    }

    /// True if it is known what has changed, and nothing that belongs to it may be missing.
    private var isWhole: Bool {
        guard !isAllDue, .now < nextAll, let watch = place.watch else { return false }
        return watch.isComplete && watch.isWhole
    }

    /// Compares what has changed since the last comparison, or everything where that is not known.
    private func compareNews() async throws -> Int {
        guard !isAllDue, .now < nextAll, let watch = place.watch, watch.isComplete, let changed = shown?.take(),
            let scan = try await look(at: watch)
        else { return try await compare() }
        return try await compare(scan, shown: changed)
    }

    /// Looks at what a watch names. It comes in parts: what is moved has two names.
    /// - Returns: nil if everything has to be looked at.
    private func look(at watch: FolderWatch) async throws -> FolderScan? {
        let place = place
        var scan: FolderScan?, paths: Set<SpacePath> = []
        for _ in 0..<Self.partsMax {
            let news = watch.take()
            record(news)
            guard !news.hasMore else { return nil }
            let more = news.paths.union(scan.map(otherPlaces) ?? [])
            if scan != nil, news.paths.isEmpty, more.isSubset(of: paths) { break }
            paths.formUnion(more)
            let all = paths
            scan = try await space.disk.run { FolderScan(all, in: place) }
            guard scan != nil else { return nil }
        }
        return scan.flatMap { isPlain($0) ? $0 : nil }
    }

    /// Records the files that were written.
    func record(_ news: FolderWatch.News) {
        written.formUnion(news.written)
        isAllWritten = isAllWritten || news.isAllWritten
    }

    /// The number of parts in which changes come; then nobody waits for more.
    private static let partsMax = 8

    /// The other places of what has come or changed: those that it had, or has as well.
    private func otherPlaces(_ scan: FolderScan) -> Set<SpacePath> {
        var places: Set<SpacePath> = []
        for (path, now) in scan.found where rows.row(at: path)?.found != now {
            for row in rows.rows(of: now.inode) where row.path != path { places.insert(row.path) }
        }
        return places
    }

    /// False if more than some paths have to be looked at to know what something is: it has several names, or one that
    /// others may have as well, with other letters.
    private func isPlain(_ scan: FolderScan) -> Bool {
        var nameCounts: [UInt64: Int] = [:]
        for found in scan.found.values { nameCounts[found.inode, default: 0] += 1 }
        return scan.found.allSatisfy { path, now in
            let row = rows.row(at: path)
            if row?.found == now { return true }
            let isOnlyName = scan.paths?.contains(path) != true || path.name.utf8.allSatisfy { $0 < 0x80 }
            return nameCounts[now.inode] == 1 && (isOnlyName || row?.path.isComposed(as: path) == true)
        }
    }
}
