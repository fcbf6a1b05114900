public import AnabranchCore

/// The knowledge of a synced file about its server, and its changes that were not uploaded (`Spec/RealmFile.md`,
/// section 5).
///
/// The objects of the file have all local changes in them, uploaded or not.
public struct RealmFileSyncState: Sendable {
    /// A changeset that waits for upload.
    public struct PendingChangeset: Sendable {
        /// The version of the file that the change produced: its client version.
        public var version: Int
        /// The version of the server that was integrated when the change was made.
        public var serverVersion: Int64
        /// When the change was made.
        public var time: ChangesetTime
        /// The content of the change.
        public var content: Content
    }

    /// The content of a changeset.
    public enum Content: Sendable {
        /// The bytes that the client would send, for a server that has the server version of the change; and the same
        /// change as it applies after the downloads since: nil if it is unchanged, empty if nothing is left of it.
        case changeset([UInt8], rebased: [UInt8]?)
        /// It cannot be read, for the reason given.
        case unreadable(RealmFileError)
    }

    /// The number that the server has given the file; 0 if it never connected.
    public var clientFileIdent: UInt64
    /// The salt that proves the ident.
    public var clientFileIdentSalt: UInt64 = 0
    /// The latest version of the server that the file has heard of.
    public var latestServerVersion: UInt64 = 0
    /// The salt that proves that version.
    public var latestServerVersionSalt: UInt64 = 0
    /// The server version up to which the file has downloaded.
    public var downloadedServerVersion: UInt64 = 0
    /// The last client version that is contained in it.
    public var downloadedClientVersion: UInt64 = 0
    /// The client version up to which the file has uploaded.
    public var uploadedClientVersion: UInt64 = 0
    /// The server version that was integrated by then.
    public var uploadedServerVersion: UInt64 = 0
    /// The version of the file before the first change of its history.
    public var historyBase: Int = 0
    /// The number of changes in the history.
    public var historyCount: Int = 0
    /// The changes that wait for upload, the oldest first.
    public var pending: [PendingChangeset] = []
    /// The features of the file that are in none of the files that this reader was checked against.
    public var notSeen: [String] = []

    init(clientFileIdent: UInt64) { self.clientFileIdent = clientFileIdent }
}

extension RealmFile {
    /// The state of sync in the file; nil if the file was never meant to be synced.
    ///
    /// - Parameters:
    ///   - salvages: whether a damaged changeset is listed as such, and not thrown.
    ///   - outputLimit: the bytes that all changesets together may have; by default 64 times the file and 16 MiB more.
    /// - Throws: `RealmFileError` for damage, a history of another form, and where the changesets would be too long.
    public func syncState(
        salvages: Bool = false, outputLimit: Int? = nil
    ) throws(RealmFileError) -> RealmFileSyncState? {
        let reading = FileReading(self, salvages: salvages)
        do throws(RealmFileError) {
            var state = try reading.syncState(outputLimit: outputLimit)
            state?.notSeen = reading.notSeen
            return state
        } catch {
            throw error.within(RealmFileError.Place(offset: Int(clamping: header.historyRef)))
        }
    }
}

extension FileReading {
    private static let slotCount = 21
    /// The form before changesets were compressed, and the one since then.
    private static let formWithoutCompression = 11, formWithCompression = 12

    /// The parts of a history that have an element for each change.
    private struct Changes {
        var changesets: [BinaryLeaf], merged: [BinaryLeaf]
        var serverVersions: [IntegerLeaf], origins: [IntegerLeaf], times: [IntegerLeaf]

        init(_ root: ArrayNode, in reading: FileReading) throws(RealmFileError) {
            func binaries(_ slot: Int) throws(RealmFileError) -> [BinaryLeaf] {
                try reading.leaves(root.integer(at: slot)) { node throws(RealmFileError) in
                    try BinaryLeaf(node, in: reading)
                }
            }
            func integers(_ slot: Int) throws(RealmFileError) -> [IntegerLeaf] {
                try reading.leaves(root.integer(at: slot)) { node throws(RealmFileError) in try IntegerLeaf(node) }
            }
            changesets = try binaries(13)
            merged = try binaries(14)
            serverVersions = try integers(15)
            origins = try integers(16)
            times = try integers(17)
        }
    }

    func syncState(outputLimit: Int?) throws(RealmFileError) -> RealmFileSyncState? {
        guard header.history == FileHeader.syncClientHistory else { return nil }
        var state = RealmFileSyncState(clientFileIdent: header.clientFileIdent)
        guard header.historyRef != 0 else { return state }
        guard [Self.formWithoutCompression, Self.formWithCompression].contains(header.historyForm) else {
            throw RealmFileError(
                .format, "a history of form \(header.historyForm): what waits for upload is of another format")
        }
        if header.historyForm == Self.formWithoutCompression { report(notSeen: "a client history of form 11") }
        let root = try refs(header.historyRef)
        guard root.count == Self.slotCount else { throw .damaged(at: root.ref, "a history of \(root.count) elements") }
        func number(_ slot: Int) throws(RealmFileError) -> UInt64 {
            UInt64(try root.taggedOrZero(at: slot, "a number of the history"))
        }
        state.clientFileIdentSalt = try number(2)
        state.latestServerVersion = try number(3)
        state.latestServerVersionSalt = try number(4)
        state.downloadedServerVersion = try number(5)
        state.downloadedClientVersion = try number(6)
        state.uploadedClientVersion = try number(7)
        state.uploadedServerVersion = try number(8)
        try addPending(of: try Changes(root, in: self), at: root.ref, to: &state, outputLimit)
        return state
    }

    private func addPending(
        of changes: Changes, at ref: Int, to state: inout RealmFileSyncState, _ outputLimit: Int?
    ) throws(RealmFileError) {
        let merged = LeafElements(changes.merged), serverVersions = LeafElements(changes.serverVersions)
        let changesets = LeafElements(changes.changesets)
        let origins = LeafElements(changes.origins), times = LeafElements(changes.times)
        guard Set([changesets.count, merged.count, serverVersions.count, origins.count, times.count]).count == 1 else {
            throw .damaged(at: ref, "the parts of the history differ in length")
        }
        state.historyCount = changesets.count
        state.historyBase = header.version - changesets.count
        var room = OutputBudget(outputLimit, fileBytes: header.logicalSize).limit
        for index in 0..<changesets.count where state.historyBase + index >= Int(state.uploadedClientVersion) {
            let (leaf, place) = changesets[index], (origin, originPlace) = origins[index]
            guard origin.integer(at: originPlace) == 0, let stored = leaf.bytes(at: place), !stored.isEmpty else {
                continue
            }
            let (mergedLeaf, mergedPlace) = merged[index], (serverVersion, versionPlace) = serverVersions[index]
            let (time, timePlace) = times[index]
            let content = try content(stored, merged: mergedLeaf.bytes(at: mergedPlace), at: ref, &room)
            state.pending.append(
                RealmFileSyncState.PendingChangeset(
                    version: state.historyBase + index + 1, serverVersion: serverVersion.integer(at: versionPlace),
                    time: ChangesetTime(rawValue: UInt64(clamping: time.integer(at: timePlace))), content: content))
        }
    }

    private func content(
        _ stored: [UInt8], merged: [UInt8]?, at ref: Int, _ room: inout Int
    ) throws(RealmFileError) -> RealmFileSyncState.Content {
        guard header.historyForm == Self.formWithCompression else { return .changeset(stored, rebased: merged) }
        var content = RealmFileSyncState.Content.changeset([], rebased: nil)
        do throws(RealmFileError) {
            let changeset = try StoredChangeset(stored).content(&room)
            let rebased = try merged.map { merged throws(RealmFileError) in
                merged.isEmpty ? [] : try StoredChangeset(merged).content(&room)
            }
            content = .changeset(changeset, rebased: rebased)
        } catch {
            let error = error.within(RealmFileError.Place(offset: ref))
            if error.code == .format { report(notSeen: "a changeset compressed with LZFSE") }
            if error.code == .damaged { try salvaging(error.place) { () throws(RealmFileError) in throw error } }
            if error.code == .outputLimit { throw error }
            content = .unreadable(error)
        }
        return content
    }
}
