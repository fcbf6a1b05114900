package import AnabranchCore

/// The changes to a file by other nodes (`Spec/Nodes.md`, section 3), all of one moment.
package struct FileNews {
    package let head: FileHead
    /// True if the log goes on from the head that the node knows; nil if no entry is left that tells.
    package let continues: Bool?
    /// The entries since that head; none if they are too many to be kept.
    package let entries: [LogEntry]
    /// The state at `head`, if it was asked for.
    package let state: ObjectGraph?

    package init(head: FileHead, continues: Bool?, entries: [LogEntry], state: ObjectGraph?) {
        (self.head, self.continues, self.entries, self.state) = (head, continues, entries, state)
    }
}

/// The changes since a head that a node asks for.
package struct NewsRequest: Sendable {
    /// The cases in which it asks for the state.
    package enum StateWish: Sendable {
        case never
        case ifChanged
        case always
    }

    package let head: FileHead
    /// The memory that the entries may occupy, in bytes.
    package let bytesMax: Int
    package let stateWish: StateWish

    /// The most entries.
    package var countMax: Int { bytesMax / LogTail.entryBytes }

    /// True if the state is asked for when the file has another head.
    package func wantsState(at now: FileHead) -> Bool {
        switch stateWish {
        case .never: false
        case .ifChanged: !now.isSame(as: head)
        case .always: true
        }
    }

    /// True if the log of a newer head goes on from this one; nil if no entry is left that tells.
    /// - Parameter salt: returns that of the version in the newer log.
    package func isContinued(
        at now: FileHead, _ salt: () throws(HistoryError) -> Salt?
    ) throws(HistoryError) -> Bool? {
        guard head.version <= now.version, head.bounds <= now.bounds else { return false }
        if head.version < now.baseVersion { return nil }
        if head.version == now.version { return head.versionSalt == now.versionSalt }
        if head.version == now.baseVersion { return head.versionSalt == now.baseSalt }
        return try salt() == head.versionSalt
    }

    /// The number of entries up to a head that goes on from this one; nil if they are too many, or the log is in
    /// another form.
    package func entryCount(at now: FileHead) -> Int? {
        let count = now.version.rawValue - head.version.rawValue
        guard now.bounds == head.bounds, now.cumulativeSize - head.cumulativeSize <= UInt64(bytesMax),
            count <= UInt64(countMax)
        else { return nil }
        return Int(count)
    }

    /// The entries up to a head that goes on from this one; none if they are too many.
    package func entries(at now: FileHead, in view: any FileView) throws(HistoryError) -> [LogEntry] {
        guard let count = entryCount(at: now) else { return [] }
        var entries: [LogEntry] = [], found: ArraySlice<LogEntry> = [], version = head.version
        // Two queries, whatever their number; those of empty entries come on top.
        if count > 2 {
            let range = VersionRange(after: version, through: now.version)
            found = try view.entries(in: range, excludingOrigin: nil, byteBudget: .max)[...]
        }
        while version < now.version {
            version += 1
            if found.first?.version == version, let entry = found.popFirst() {
                entries.append(entry)
            } else {
                entries.append(try view.requiredEntry(version))
            }
        }
        return entries
    }
}

/// A store that reads all of this at once.
package protocol NewsStore: HistoryStore {
    func readNews(of file: SyncedFileID, _ request: NewsRequest) throws(HistoryError) -> FileNews
}

extension HistoryStore {
    /// The changes to a file by other nodes.
    package func news(of file: SyncedFileID, _ request: NewsRequest) throws(HistoryError) -> FileNews {
        guard let store = self as? any NewsStore else { return try readNewsInSteps(of: file, request) }
        return try store.readNews(of: file, request)
    }

    /// The same, in several readings.
    package func readNewsInSteps(of file: SyncedFileID, _ request: NewsRequest) throws(HistoryError) -> FileNews {
        while true {
            let (now, continues, entries) = try read(file) { view throws(HistoryError) in
                let now = try view.head()
                let continues = try request.isContinued(at: now) { () throws(HistoryError) in
                    try view.salt(of: request.head.version)
                }
                return (now, continues, continues == true ? try request.entries(at: now, in: view) : [])
            }
            guard continues != false, request.wantsState(at: now) else {
                return FileNews(head: now, continues: continues, entries: entries, state: nil)
            }
            let state: ObjectGraph
            do throws(HistoryError) { state = try self.state(of: file) } catch {
                guard error.code == .conflict else { throw error }
                continue
            }
            // The state is one of this head if that is still the newest one.
            let newest = try read(file) { view throws(HistoryError) in try view.head() }
            guard newest.isSame(as: now) else { continue }
            return FileNews(head: now, continues: continues, entries: entries, state: state)
        }
    }
}
