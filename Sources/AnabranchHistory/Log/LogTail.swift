import AnabranchCore

/// The newest part of a file's log in memory, and the client files in use: clients that keep up with the log cost no
/// reading of the store.
///
/// Only the owner of a file writes it. So the tail, updated with each commit, equals the store, until a commit fails:
/// then a new tail begins. In a shared store, it is what the store held at its head.
final class LogTail {
    /// The part of one client file that is kept.
    private struct Client {
        var file: ClientFile
        /// The client's newest receipt at or below `base`.
        var olderReceipt = Lookup<Receipt?>.unknown
        var reciprocals = Lookup<[ReciprocalChangeset]>.unknown

        var byteCount: Int {
            guard case .known(let reciprocals) = reciprocals else { return rowByteCount }
            return reciprocals.reduce(rowByteCount) { $0 + $1.changeset.count + 64 }
        }

        private var rowByteCount: Int { 256 + (file.user?.utf8.count ?? 0) }
    }

    /// The result of asking the store, if it was asked.
    enum Lookup<Value> {
        case unknown
        case known(Value)
        /// There is more than is kept for one client file.
        case tooMuch
    }

    /// The head of the file in the store.
    private(set) var head: FileHead
    /// The version before the first entry that is kept.
    private(set) var base: ServerVersion
    private var entries: [LogEntry] = []
    private var conflictKeys = ConflictKeyIndex()
    /// The receipts of `entries`, by their origin.
    private var receipts: [ClientFileID: [Receipt]] = [:]
    private var entryBytes = 0
    private var clients: [ClientFileID: Client] = [:]
    private var clientBytes = 0
    let bytesMax: Int
    /// True while nothing is forgotten, because the store does not have all of it yet.
    private var isHeld = false

    /// - Parameters:
    ///   - head: the head of the file. The tail begins without entries.
    ///   - bytesMax: the memory that the entries may occupy, in bytes; the client files may occupy as much.
    init(at head: FileHead, bytesMax: Int) {
        self.head = head
        self.bytesMax = bytesMax
        base = head.version
    }

    /// The memory that the tail occupies, in bytes.
    var byteCount: Int { entryBytes + clientBytes }

    /// True if the tail has everything that a client at `version` asks for.
    func covers(_ ident: ClientFileID, after version: ServerVersion) -> Bool {
        version >= base && clients[ident] != nil
    }

    // MARK: Other nodes

    /// Replaces the head by one with the same log.
    func keep(_ head: FileHead) { self.head = head }

    /// Takes in entries of other nodes; client files are read again.
    /// - Parameter entries: those up to the new head; none if they are too many.
    func takeIn(_ entries: [LogEntry], _ head: FileHead) throws(HistoryError) {
        let isWhole = self.head.version + UInt64(entries.count) == head.version
        let keys = isWhole ? try LogEntry.conflictKeys(of: entries) : []
        self.head = head
        forgetClients()
        if isWhole { return append(entries, keys) }
        removeEntries(self.entries.count)
        base = head.version
    }

    /// Forgets client files, which others may have written.
    func forgetClients() { (clients, clientBytes) = ([:], 0) }

    func forget(_ ident: ClientFileID) { change(ident) { $0 = nil } }

    // MARK: Commits

    /// Applies a commit to the tail.
    func append(_ commit: Commit) {
        let nextIdent = head.nextIdent
        head = commit.newHead
        if let trim = commit.trim { remove(through: trim.version) }
        for file in commit.clientFiles { update(file, isNew: file.ident >= nextIdent) }
        for (ident, newer) in commit.reciprocalsByFile { update(newer, of: ident) }
        append(commit.entries, commit.conflictKeys)
        limitClients()
    }

    private func append(_ added: [LogEntry], _ keys: [ConflictKeyEntry]) {
        let addedBytes = added.reduce(keys.count * Self.keyBytes) { $0 + Self.byteCount(of: $1) }
        guard isHeld || addedBytes <= bytesMax else {
            removeEntries(entries.count)
            for entry in added { clients[entry.origin]?.olderReceipt = .unknown }
            base = head.version
            return
        }
        entries += added
        entryBytes += addedBytes
        for key in keys { conflictKeys.insert(key) }
        for entry in added { record(entry) }
        limitEntries()
    }

    /// Removes half of the entries at a time: the remaining ones have to be indexed again.
    private func limitEntries() {
        while !isHeld, entryBytes > bytesMax { removeEntries((entries.count + 1) / 2) }
    }

    /// Keeps everything that is appended from now on, because the store does not have it yet.
    func beginHold() { isHeld = true }

    /// Ends the hold: the store has everything.
    func endHold() {
        isHeld = false
        limitEntries()
        limitClients()
    }

    private func record(_ entry: LogEntry) {
        guard entry.origin > 0 else { return }
        receipts[entry.origin, default: []].append(
            Receipt(version: entry.version, clientVersion: entry.clientVersion))
    }

    private func removeEntries(_ count: Int) {
        guard count > 0 else { return }
        for entry in entries.prefix(count) { clients[entry.origin]?.olderReceipt = .unknown }
        base = entries[count - 1].version
        entries.removeFirst(count)
        conflictKeys.removeAll(through: base)
        entryBytes = entries.reduce(conflictKeys.count * Self.keyBytes) { $0 + Self.byteCount(of: $1) }
        receipts = [:]
        for entry in entries { record(entry) }
    }

    /// Removes the entries up to `version`, which the store no longer has.
    private func remove(through version: ServerVersion) {
        removeEntries(version > base ? Int(version.rawValue - base.rawValue) : 0)
        for (ident, client) in clients {
            guard case .known(let receipt?) = client.olderReceipt, receipt.version <= version else { continue }
            clients[ident]?.olderReceipt = .known(nil)
        }
    }

    private static let keyBytes = 96

    static let entryBytes = 160

    private static func byteCount(of entry: LogEntry) -> Int { entryBytes + entry.byteCount }

    // MARK: Client files

    /// A client file that is kept; nil if it has to be read.
    func clientFile(_ ident: ClientFileID) -> ClientFile? { clients[ident]?.file }

    /// Keeps a client file that was read.
    func keep(_ file: ClientFile) {
        change(file.ident) { $0 = Client(file: file) }
        limitClients()
    }

    func reciprocals(of ident: ClientFileID) -> Lookup<[ReciprocalChangeset]> {
        clients[ident]?.reciprocals ?? .unknown
    }

    /// Keeps all reciprocal changesets of a client file, if the file is kept.
    func keep(_ reciprocals: [ReciprocalChangeset], of ident: ClientFileID) {
        guard clients[ident] != nil else { return }
        change(ident) { client in
            client?.reciprocals = .known(reciprocals)
            limit(&client)
        }
        limitClients()
    }

    /// The newest receipt of a client file at or below `base`.
    func olderReceipt(of ident: ClientFileID) -> Lookup<Receipt?> { clients[ident]?.olderReceipt ?? .unknown }

    /// Keeps the receipt, if the file is kept.
    func keep(_ olderReceipt: Receipt?, of ident: ClientFileID) {
        clients[ident]?.olderReceipt = .known(olderReceipt)
    }

    private func update(_ file: ClientFile, isNew: Bool) {
        let base = file.uploadCursor.serverVersion
        change(file.ident) { client in
            if isNew { client = Client(file: file, olderReceipt: .known(nil), reciprocals: .known([])) }
            // A client file that has just changed is likely to be read soon. If it was not kept, the rest is read when
            // needed.
            guard client != nil else { return client = Client(file: file) }
            client?.file = file
            guard case .known(var reciprocals) = client?.reciprocals, !reciprocals.isEmpty else { return }
            reciprocals.removeFirst(file.isExpired ? reciprocals.count : reciprocals.count(upTo: base))
            client?.reciprocals = .known(reciprocals)
        }
    }

    private func update(_ newer: [ReciprocalChangeset], of ident: ClientFileID) {
        change(ident) { client in
            guard case .known(var reciprocals) = client?.reciprocals else { return }
            client?.reciprocals = .unknown
            reciprocals.merge(newer)
            client?.reciprocals = .known(reciprocals)
            limit(&client)
        }
    }

    /// Drops very many reciprocal changesets of one client file: they would make all others be forgotten.
    private func limit(_ client: inout Client?) {
        if !isHeld, let found = client, found.byteCount > bytesMax / 2 { client?.reciprocals = .tooMuch }
    }

    private func change(_ ident: ClientFileID, _ body: (inout Client?) -> Void) {
        clientBytes -= clients[ident]?.byteCount ?? 0
        body(&clients[ident])
        clientBytes += clients[ident]?.byteCount ?? 0
    }

    /// Forgets all of them, not just some: reading the row of one that is needed again costs little.
    private func limitClients() {
        if !isHeld, clientBytes > bytesMax { forgetClients() }
    }
}

/// The queries of `FileView`, answered from the entries that are kept: `range` must not begin below `base`.
extension LogTail {
    func entry(_ version: ServerVersion) -> LogEntry { entries[index(of: version)] }

    func entries(in range: VersionRange, excludingOrigin origin: ClientFileID?, byteBudget: Int) -> [LogEntry] {
        var found: [LogEntry] = []
        var bytes = 0
        for entry in kept(range) where entry.origin != origin && !entry.changeset.isEmpty {
            found.append(entry)
            bytes += entry.byteCount
            if bytes > byteBudget { break }
        }
        return found
    }

    func versions(in range: VersionRange, excludingOrigin origin: ClientFileID) -> [ServerVersion] {
        kept(range).filter { $0.origin != origin && !$0.changeset.isEmpty }.map(\.version)
    }

    func receipts(from ident: ClientFileID, in range: VersionRange) -> [Receipt] {
        guard !range.isEmpty, let own = receipts[ident] else { return [] }
        return Array(own[own.count(upTo: range.base)..<own.count(upTo: range.last)])
    }

    /// The newest receipt above `base`.
    func lastReceipt(from ident: ClientFileID, upTo version: ServerVersion) -> Receipt? {
        guard let own = receipts[ident] else { return nil }
        return own.prefix(own.count(upTo: version)).last
    }

    func collect(
        _ keys: [UInt64], in range: VersionRange, excludingOrigin origin: ClientFileID,
        into versions: inout [ServerVersion]
    ) {
        guard !range.isEmpty else { return }
        conflictKeys.collect(keys, in: range, excludingOrigin: origin, into: &versions)
    }

    private func kept(_ range: VersionRange) -> ArraySlice<LogEntry> {
        let last = min(range.last, head.version)
        guard range.base < last else { return [] }
        return entries[index(of: range.base + 1)...index(of: last)]
    }

    private func index(of version: ServerVersion) -> Int { Int(version.rawValue - base.rawValue) - 1 }
}
