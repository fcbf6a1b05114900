package import AnabranchCore

/// The entries that a client is sent, or was sent and has not confirmed; the versions never go back. Entries that are
/// as they are in the log of the file have their contents only there; those of other older entries are with the store.
package struct ViewLog: Sendable {
    /// The number of bytes of the newest entries that stay in memory while the client is connected.
    static let loadedBytesMax = 16 << 10

    package private(set) var entries: [ViewEntry] = []
    /// The number of the last entry that there ever was.
    private(set) var lastNumber: UInt64 = 0
    /// The size of the entries outside bootstraps, in bytes: a client in a bootstrap cannot confirm it before its end.
    private(set) var steadyBytes = 0
    /// The size of the entries of bootstraps, in bytes.
    private(set) var bootstrapBytes = 0
    /// The number of first entries whose contents only the store has.
    private var unloadedCount = 0
    private var loadedBytes = 0

    init() {}

    /// - Parameter stored: the view as it is stored; contents are not kept.
    init(_ stored: StoredView) {
        entries = stored.log.map(\.withoutContents)
        lastNumber = stored.record.lastNumber
        steadyBytes = entries.reduce(0) { $0 + $1.steadyBytes }
        bootstrapBytes = entries.reduce(0) { $0 + $1.bootstrapBytes }
        unloadedCount = entries.count
    }

    /// The number of the first entry still there; one more than the last one if there is none.
    var firstNumber: UInt64 { lastNumber + 1 - UInt64(entries.count) }

    func entries(after number: UInt64) -> ArraySlice<ViewEntry> {
        entries.dropFirst(Int(max(number + 1, firstNumber) - firstNumber))
    }

    /// The number of the last entry up to a version.
    func number(upTo version: ServerVersion) -> UInt64 {
        // Each changeset of an upload asks, and there may be very many of both.
        firstNumber + UInt64(entries.firstPlace { $0.version > version }) - 1
    }

    mutating func append(
        _ version: ServerVersion, clientVersion: ClientVersion, timestamp: ChangesetTime, origin: ClientFileID,
        _ contents: ViewEntry.Contents, bootstrap: UInt64? = nil, isInLog: Bool = false, share: ViewShare? = nil
    ) {
        var entry = ViewEntry(
            number: lastNumber + 1, version: version, clientVersion: clientVersion, timestamp: timestamp,
            origin: origin, bootstrap: bootstrap, isInLog: isInLog, sentBytes: contents.sentBytes, contents: contents)
        entry.share = share
        append(entry)
    }

    /// Appends an entry as it is in the log.
    mutating func append(_ entry: LogEntry, clientVersion: ClientVersion) {
        append(
            ViewEntry(
                number: lastNumber + 1, version: entry.version, clientVersion: clientVersion,
                timestamp: entry.timestamp, origin: entry.originOnWire, bootstrap: nil, isInLog: true,
                sentBytes: entry.changeset.count, contents: nil))
    }

    private mutating func append(_ entry: ViewEntry) {
        lastNumber = entry.number
        entries.append(entry)
        steadyBytes += entry.steadyBytes
        bootstrapBytes += entry.bootstrapBytes
        loadedBytes += entry.loadedBytes
    }

    /// Records the form that an entry with contents has now.
    mutating func merge(_ number: UInt64, into form: [UInt8]) {
        let index = Int(number - firstNumber), before = entries[index]
        entries[index].contents?.merged = form
        entries[index].mergedBytes = form.count
        steadyBytes += entries[index].steadyBytes - before.steadyBytes
        loadedBytes += entries[index].loadedBytes - before.loadedBytes
    }

    /// Forgets entries up to a version.
    /// - Returns: the size of those among them that the store has beside the log, in bytes.
    @discardableResult
    mutating func removeFirst(through version: ServerVersion) -> Int {
        let count = entries.prefix { $0.version <= version }.count
        var storedBytes = 0
        for entry in entries.prefix(count) {
            steadyBytes -= entry.steadyBytes
            bootstrapBytes -= entry.bootstrapBytes
            loadedBytes -= entry.loadedBytes
            if entry.logged == nil { storedBytes += entry.byteCount }
        }
        entries.removeFirst(count)
        // An array keeps the room that it once had.
        if entries.isEmpty { entries = [] }
        unloadedCount = max(0, unloadedCount - count)
        return storedBytes
    }

    // MARK: Contents

    /// Takes the contents of some entries, in the order of their numbers.
    mutating func load(_ loaded: [ViewEntry]) {
        for entry in loaded {
            let index = Int(entry.number - firstNumber)
            loadedBytes -= entries[index].loadedBytes
            entries[index] = entry
            loadedBytes += entry.loadedBytes
            unloadedCount = min(unloadedCount, index)
        }
    }

    /// Forgets contents, which the store has, until at most `bytes` bytes are left.
    mutating func unload(until bytes: Int) {
        while loadedBytes > bytes, unloadedCount < entries.count {
            loadedBytes -= entries[unloadedCount].loadedBytes
            entries[unloadedCount].contents = nil
            unloadedCount += 1
        }
    }
}

/// The part that entries of several views have in common which are not as they are in the log: the changeset, which a
/// store keeps once.
package struct ViewShare: Sendable, Hashable {
    /// Identifies the changeset in this process.
    package let id: UInt64
    /// True if another view has got it before.
    var isKnown: Bool

    /// The share of a new changeset.
    static var new: ViewShare { ViewShare(id: .random(in: 1...(.max)), isKnown: false) }
}

/// One changeset that a client is sent.
package struct ViewEntry: Sendable, Equatable {
    package struct Contents: Sendable, Equatable {
        /// The changeset as it is sent.
        package let changeset: [UInt8]
        /// The changeset as it is after the uploads that were merged with it, if that is not the same.
        package var merged: [UInt8]?
        /// The write of the client that it undoes, to be reported to the client.
        package let compensation: CompensatingWrite?

        package init(changeset: [UInt8], merged: [UInt8]? = nil, compensation: CompensatingWrite? = nil) {
            self.changeset = changeset
            self.merged = merged
            self.compensation = compensation
        }

        fileprivate var sentBytes: Int { changeset.count + (compensation?.byteCount ?? 0) }
    }

    /// The number within the view: 1, 2, 3 …
    package let number: UInt64
    /// The version, which several entries can share.
    package let version: ServerVersion
    /// The newest changeset of the client's own before it.
    package let clientVersion: ClientVersion
    package private(set) var timestamp: ChangesetTime
    package private(set) var origin: ClientFileID
    /// The number of the set of queries of whose bootstrap it is part; nil if of none.
    package let bootstrap: UInt64?
    /// True if the changeset is that of the log entry of this version: a store need not keep it twice.
    package let isInLog: Bool
    /// The size of `Contents.changeset` and of what is sent with it, in bytes.
    package let sentBytes: Int
    /// The size of `Contents.merged`, in bytes.
    package fileprivate(set) var mergedBytes: Int?
    /// Nil while only the store, or the log, has them.
    package fileprivate(set) var contents: Contents?
    /// The part in common with entries of other views; nil if there is none, or it is no longer known.
    package fileprivate(set) var share: ViewShare?

    package init(
        number: UInt64, version: ServerVersion, clientVersion: ClientVersion, timestamp: ChangesetTime,
        origin: ClientFileID, bootstrap: UInt64?, isInLog: Bool, sentBytes: Int, contents: Contents?
    ) {
        self.number = number
        self.version = version
        self.clientVersion = clientVersion
        self.timestamp = timestamp
        self.origin = origin
        self.bootstrap = bootstrap
        self.isInLog = isInLog
        self.sentBytes = sentBytes
        self.contents = contents
        mergedBytes = contents?.merged?.count
    }

    /// Creates an entry that is as it is in the log, from what its store keeps: the rest is read from the log.
    init(_ logged: LoggedEntry) {
        self.init(
            number: logged.number, version: logged.version, clientVersion: logged.clientVersion, timestamp: 0,
            origin: .server, bootstrap: nil, isInLog: true, sentBytes: logged.sentBytes, contents: nil)
    }

    /// The form in which a store keeps an entry that is as it is in the log; nil if this one is not.
    var logged: LoggedEntry? {
        guard isInLog, mergedBytes == nil else { return nil }
        return LoggedEntry(number: number, version: version, clientVersion: clientVersion, sentBytes: sentBytes)
    }

    /// The entry with the data of the log entry that it names.
    func resolved(by logged: LogEntry) -> ViewEntry {
        var entry = self
        (entry.timestamp, entry.origin) = (logged.timestamp, logged.originOnWire)
        entry.contents = Contents(
            changeset: logged.changeset, merged: contents?.merged, compensation: contents?.compensation)
        return entry
    }

    /// The entry without its contents, as it is while only the store has them.
    package var withoutContents: ViewEntry {
        var entry = self
        entry.contents = nil
        return entry
    }

    /// True if the contents have to be read from the store.
    var isWithStore: Bool { contents == nil && logged == nil }

    /// True if only the log has it.
    var isOnlyInLog: Bool { contents == nil && logged != nil }

    /// True if the changeset has to be read from the log.
    var isUnresolved: Bool { isInLog && contents?.changeset.isEmpty ?? true }

    var tag: OriginTag { OriginTag(timestamp: timestamp, ident: origin) }

    /// True if it was made for the view alone: an object that leaves or enters, or comes back as it was.
    var isSynthetic: Bool { !isInLog && origin == .server && timestamp == 0 }

    fileprivate var byteCount: Int { sentBytes + (mergedBytes ?? 0) }

    /// The space that its contents occupy, in bytes.
    fileprivate var loadedBytes: Int { contents == nil ? 0 : byteCount }

    /// The bytes that it counts for in `ViewLog.steadyBytes`.
    fileprivate var steadyBytes: Int { bootstrap == nil ? byteCount + 64 : 0 }

    /// The bytes that it counts for in `ViewLog.bootstrapBytes`.
    fileprivate var bootstrapBytes: Int { bootstrap == nil ? 0 : sentBytes }

    /// The size of the changeset, in bytes.
    package var changesetBytes: Int { sentBytes - (contents?.compensation?.byteCount ?? 0) }

    /// The changeset as it is sent; nil without contents.
    var downloaded: DownloadedChangeset? {
        guard let contents else { return nil }
        return DownloadedChangeset(
            cursor: DownloadCursor(serverVersion: version, clientVersion: clientVersion), tag: tag,
            changeset: contents.changeset)
    }
}
