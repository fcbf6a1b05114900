import AnabranchHistory

/// What the files of a store thread keep in memory between turns: their newest log entries, progress that is not
/// written, and what makes the next integration cheaper.
extension FileRegistry {
    func limitTails() {
        let active = activeFiles.map { (path: $0.file.path, bytes: $0.file.tailByteCount) }
        for path in tails.note(active) { openFiles[path]?.file.releaseTail() }
    }

    func noteProgress() {
        for sessions in activeFiles where sessions.file.hasUnwrittenProgress {
            pathsWithProgress.insert(sessions.file.path)
        }
    }

    /// Has the next commit write how far clients have come, of files where only UPLOADs without changesets say so.
    func writeProgress() {
        let files = pathsWithProgress.compactMap { openFiles[$0] }
        pathsWithProgress.removeAll(keepingCapacity: true)
        for sessions in files where sessions.file.hasUnwrittenProgress {
            // The merge of uploads may last, or be given up.
            guard sessions.file.isIntegrating || sessions.file.hasQueuedUploads else {
                sessions.file.writeProgressWithNextCommit()
                merges.append(sessions)
                continue
            }
            do {
                try sessions.file.writeProgress()
            } catch {
                close(sessions, because: error)
            }
        }
    }

    func retainRecent(_ paths: [VirtualPath]) {
        recentFiles.removeAll { paths.contains($0) }
        recentFiles += paths
        for path in recentFiles.dropLast(Self.recentFilesMax) { openFiles[path]?.file.releaseCaches() }
        recentFiles.removeFirst(max(0, recentFiles.count - Self.recentFilesMax))
    }
}
