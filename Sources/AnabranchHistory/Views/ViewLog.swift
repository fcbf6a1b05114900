package import AnabranchCore

/// What a client is sent, or was sent and has not confirmed; the versions never go back. What is as it is in the log of
/// the file has its contents there alone; those of other older entries are with the store.
package struct ViewLog: Sendable {
    /// So many bytes of the newest entries stay in memory while the client is connected.
    static let loadedBytesMax = 16 << 10

    package private(set) var entries: [ViewEntry] = []
    /// Number of the last entry that there ever was.
    private(set) var lastNumber: UInt64 = 0
    /// What it has beside bootstraps, in bytes: a client that gets one cannot confirm it before its end.
    private(set) var steadyBytes = 0
    /// What it has of bootstraps, in bytes.
    private(set) var bootstrapBytes = 0
    /// So many of the first entries are with the store alone.
    private var unloadedCount = 0
    private var loadedBytes = 0

    init() {}

    /// - Parameter stored: with contents that are not kept.
    init(_ stored: StoredView) {
        entries = stored.log.map(\.withoutContents)
        lastNumber = stored.record.lastNumber
        steadyBytes = entries.reduce(0) { $0 + $1.steadyBytes }
        bootstrapBytes = entries.reduce(0) { $0 + $1.bootstrapBytes }
        unloadedCount = entries.count
    }

    /// Number of the first entry that there is; one more than the last one if there is none.
    var firstNumber: UInt64 { lastNumber + 1 - UInt64(entries.count) }

    func entries(after number: UInt64) -> ArraySlice<ViewEntry> {
        entries.dropFirst(Int(max(number + 1, firstNumber) - firstNumber))
    }

    /// The number of the last entry up to a version.
    func number(upTo version: ServerVersion) -> UInt64 {
        entries.first { $0.version > version }.map { $0.number - 1 } ?? lastNumber
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

    /// Notes the form that an entry with contents has now.
    mutating func merge(_ number: UInt64, into form: [UInt8]) {
        let index = Int(number - firstNumber), before = entries[index]
        entries[index].contents?.merged = form
        entries[index].mergedBytes = form.count
        steadyBytes += entries[index].steadyBytes - before.steadyBytes
        loadedBytes += entries[index].loadedBytes - before.loadedBytes
    }

    /// Forgets entries up to a version.
    mutating func removeFirst(through version: ServerVersion) {
        let count = entries.prefix { $0.version <= version }.count
        for entry in entries.prefix(count) {
            steadyBytes -= entry.steadyBytes
            bootstrapBytes -= entry.bootstrapBytes
            loadedBytes -= entry.loadedBytes
        }
        entries.removeFirst(count)
        unloadedCount = max(0, unloadedCount - count)
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

    /// Forgets contents, which the store has, until there are at most so many bytes.
    mutating func unload(until bytes: Int) {
        while loadedBytes > bytes, unloadedCount < entries.count {
            loadedBytes -= entries[unloadedCount].loadedBytes
            entries[unloadedCount].contents = nil
            unloadedCount += 1
        }
    }
}

/// What entries of several views have in common that are not as they are in the log: the changeset, which a store keeps
/// once.
package struct ViewShare: Sendable, Hashable {
    /// Of the changeset, in this process.
    package let id: UInt64
    /// Whether another view has got it before.
    var isKnown: Bool

    /// For what is new.
    static var new: ViewShare { ViewShare(id: .random(in: 1...(.max)), isKnown: false) }
}

/// One changeset that a client is sent.
package struct ViewEntry: Sendable, Equatable {
    package struct Contents: Sendable, Equatable {
        /// As it is sent.
        package let changeset: [UInt8]
        /// As it is after the uploads that were merged with it, if that is not the same.
        package var merged: [UInt8]?
        /// The write of the client that it undoes, which the client has to be told of.
        package let compensation: CompensatingWrite?

        package init(changeset: [UInt8], merged: [UInt8]? = nil, compensation: CompensatingWrite? = nil) {
            self.changeset = changeset
            self.merged = merged
            self.compensation = compensation
        }

        fileprivate var sentBytes: Int { changeset.count + (compensation?.byteCount ?? 0) }
    }

    /// 1, 2, 3 … of the view.
    package let number: UInt64
    /// What several entries can share.
    package let version: ServerVersion
    /// The newest changeset of the client's own before it.
    package let clientVersion: ClientVersion
    package private(set) var timestamp: ChangesetTime
    package private(set) var origin: ClientFileID
    /// Of which set of queries it is part of the bootstrap; nil if of none.
    package let bootstrap: UInt64?
    /// Whether the changeset is that of the log entry of this version: a store need not keep it twice.
    package let isInLog: Bool
    /// Of `Contents.changeset`, and of what is told with it.
    package let sentBytes: Int
    /// Of `Contents.merged`.
    package fileprivate(set) var mergedBytes: Int?
    /// Nil while only the store, or the log, has them.
    package fileprivate(set) var contents: Contents?
    /// What it has in common with entries of other views; nil if that is nothing, or nobody knows any more.
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

    /// What a view has as it is in the log, as its store keeps it: the rest is read from there.
    init(_ logged: LoggedEntry) {
        self.init(
            number: logged.number, version: logged.version, clientVersion: logged.clientVersion, timestamp: 0,
            origin: .server, bootstrap: nil, isInLog: true, sentBytes: logged.sentBytes, contents: nil)
    }

    /// The same, if the entry is like this.
    var logged: LoggedEntry? {
        guard isInLog, mergedBytes == nil else { return nil }
        return LoggedEntry(number: number, version: version, clientVersion: clientVersion, sentBytes: sentBytes)
    }

    /// The same with what the log entry has that it names.
    func resolved(by logged: LogEntry) -> ViewEntry {
        var entry = self
        (entry.timestamp, entry.origin) = (logged.timestamp, logged.originOnWire)
        entry.contents = Contents(
            changeset: logged.changeset, merged: contents?.merged, compensation: contents?.compensation)
        return entry
    }

    /// The same while only the store has the contents.
    package var withoutContents: ViewEntry {
        var entry = self
        entry.contents = nil
        return entry
    }

    /// Whether the store has to be asked for the contents.
    var isWithStore: Bool { contents == nil && logged == nil }

    /// Whether nothing but the log has it.
    var isOnlyInLog: Bool { contents == nil && logged != nil }

    /// Whether the log has to be asked for the changeset.
    var isUnresolved: Bool { isInLog && contents?.changeset.isEmpty ?? true }

    var tag: OriginTag { OriginTag(timestamp: timestamp, ident: origin) }

    /// Whether nobody has made it, but for the view: an object that leaves or enters, or comes back as it was.
    var isSynthetic: Bool { !isInLog && origin == .server && timestamp == 0 }

    private var byteCount: Int { sentBytes + (mergedBytes ?? 0) }

    /// What its contents occupy.
    fileprivate var loadedBytes: Int { contents == nil ? 0 : byteCount }

    /// What it counts in `ViewLog.steadyBytes`.
    fileprivate var steadyBytes: Int { bootstrap == nil ? byteCount + 64 : 0 }

    /// What it counts in `ViewLog.bootstrapBytes`.
    fileprivate var bootstrapBytes: Int { bootstrap == nil ? 0 : sentBytes }

    /// How long the changeset is.
    package var changesetBytes: Int { sentBytes - (contents?.compensation?.byteCount ?? 0) }

    /// Nil without contents.
    var downloaded: DownloadedChangeset? {
        guard let contents else { return nil }
        return DownloadedChangeset(
            cursor: DownloadCursor(serverVersion: version, clientVersion: clientVersion), tag: tag,
            changeset: contents.changeset)
    }
}
