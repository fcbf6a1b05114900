import AnabranchCore
import AnabranchProtocol

/// The synced file behind one session of flexible sync, which plays the part of a view: classes `A` and `B`, of which a
/// query brings whole classes into view. Uploads become versions that nobody else sees.
struct ScriptedFile {
    private struct Entry {
        let version: ServerVersion
        /// Nil for steady state.
        let bootstrap: QueryVersion?
        let changesets: [[UInt8]]
        /// The newest client version that precedes it.
        let clientVersion: ClientVersion
    }

    /// True if each changeset of a bootstrap is a message of its own.
    let splitsBootstraps: Bool
    /// Both classes without objects.
    private var empty = ObjectGraph()
    private var entries: [Entry] = []
    private(set) var version: ServerVersion = 0
    private var upload = UploadCursor()
    private var ownVersions: [(version: ServerVersion, client: ClientVersion)] = []
    private var compensations: [ServerVersion: ErrorMessage] = [:]
    /// The requests that came.
    private(set) var binds: [FlexibleBind?] = []
    private(set) var idents: [IdentRequest] = []
    private(set) var queries: [SubscriptionSet] = []
    /// Parts of this bootstrap may lie in the client; if it asks for the set again, they have to be dropped.
    private var sentParts: QueryVersion?
    /// The connection on which the client was told to drop them. That it asks again there shows that it was heard.
    private var dropConnection: Int?

    init(splitsBootstraps: Bool) { self.splitsBootstraps = splitsBootstraps }

    private mutating func append(_ bootstrap: QueryVersion?, _ changesets: [[UInt8]]) {
        version += 1
        entries.append(
            Entry(
                version: version, bootstrap: bootstrap, changesets: changesets,
                clientVersion: clientVersion(at: version)))
    }

    private func changeset(_ name: String, _ key: PrimaryKey) throws -> [UInt8] {
        var graph = empty
        return try graph.write(as: 1) { try $0.create(name, key: key) }.changeset
    }

    /// Another client has written an object of class A.
    mutating func write(_ key: Int64) throws { append(nil, [try changeset("A", .int(key))]) }

    /// The next UPLOAD is undone, with an error that comes before the undo.
    mutating func compensate() throws {
        append(nil, [[]])
        var error = ErrorMessage(.compensatingWrite)
        error.rejection = ErrorMessage.Rejection(
            clientVersion: upload.clientVersion, serverVersion: version,
            updates: [ErrorMessage.Rejection.Update(reason: "not allowed", table: "A", key: .int(1))])
        compensations[version] = error
    }

    /// Its answer to a request; nothing for scans.
    mutating func answer(_ request: SessionRequest, on connection: Int) throws -> SessionEvent? {
        switch request {
        case .open(let bind):
            binds.append(bind.flexible)
            return bind.needsFileIdent ? .fileIdentAllocated(SaltedFileID(ident: 2, salt: 7)) : nil
        case .identify(let ident, _):
            idents.append(ident)
            if version == 0 {
                let schema = try empty.write(as: 1) { tx in
                    for name in ["A", "B"] { try tx.addClass(name, key: "_id", .int) }
                }
                append(0, [schema.changeset])
            }
            // What the client has not got of other sets is made again when it asks again.
            let identified = ident.subscriptions?.version ?? 0
            if identified >= sentParts ?? 0 { sentParts = nil }
            entries.removeAll { $0.version > ident.download.serverVersion && $0.bootstrap ?? 0 > identified }
            return .identAccepted(ident.download, exposedVersion: version)
        case .query(let set) where set.version == sentParts && connection != dropConnection:
            dropConnection = connection
            return .failed(ErrorMessage(.sessionClosed))
        case .query(let set):
            return try query(set)
        case .integrate(let message):
            for changeset in message.upload.changesets where changeset.cursor.clientVersion > upload.clientVersion {
                version += 1
                ownVersions.append((version, changeset.cursor.clientVersion))
            }
            if message.progress.clientVersion > upload.clientVersion { upload = message.progress }
            return .versionExposed(version)
        case .scan(let cursor): return scan(from: cursor, part: 0)
        case .scanBootstrap(_, let part, let cursor): return scan(from: cursor, part: part)
        case .newestVersion: return .newestVersion(version)
        case .clientVersion, .close: return nil
        }
    }

    private mutating func query(_ set: SubscriptionSet) throws -> SessionEvent {
        queries.append(set)
        let text = String(decoding: set.query, as: UTF8.self)
        if text.contains("refuse") {
            return .queryRefused(QueryRefusal(version: set.version, message: "Invalid query: \(text)"))
        }
        var changesets: [[UInt8]] = []
        for name in ["A", "B"] where text.contains("\"\(name)\"") {
            let key = PrimaryKey.int(Int64(100 + set.version.rawValue))
            changesets.append(try changeset(name, key))
        }
        append(set.version, changesets.isEmpty ? [[]] : changesets)
        return .versionExposed(version)
    }

    // MARK: Downloads

    private func clientVersion(at version: ServerVersion) -> ClientVersion {
        ownVersions.last { $0.version <= version }?.client ?? 0
    }

    private mutating func scan(from cursor: DownloadCursor, part: Int) -> SessionEvent {
        let rest = entries.filter { $0.version > cursor.serverVersion }
        guard let first = rest.first, let bootstrap = first.bootstrap else {
            let steady = Array(rest.prefix { $0.bootstrap == nil })
            let end = steady.count < rest.count ? rest[steady.count].version - 1 : version
            return download(
                steady.flatMap { entry in entry.changesets.map { (entry, $0) } }, to: end, kind: .steady,
                compensations: steady.compactMap { compensations[$0.version] })
        }
        let changesets = splitsBootstraps ? [first.changesets[part]] : first.changesets
        let isLast = !splitsBootstraps || part == first.changesets.count - 1
        sentParts = changesets.count < first.changesets.count ? bootstrap : nil
        dropConnection = nil
        return download(
            changesets.map { (first, $0) }, to: first.version, kind: .bootstrap(bootstrap, isLast: isLast),
            compensations: [])
    }

    private func download(
        _ changesets: [(Entry, [UInt8])], to end: ServerVersion, kind: DownloadKind,
        compensations: [ErrorMessage]
    ) -> SessionEvent {
        let progress = DownloadProgress(
            cursor: DownloadCursor(serverVersion: end, clientVersion: clientVersion(at: end)),
            latest: SaltedVersion(version: version, salt: 5), upload: upload, downloadableBytes: 0)
        let body = EncodedBody(
            changesets.map { entry, changeset in
                DownloadedChangeset(
                    cursor: DownloadCursor(serverVersion: entry.version, clientVersion: entry.clientVersion),
                    tag: OriginTag(timestamp: 0, ident: 1), changeset: changeset)
            })
        return .flexibleDownload(
            FlexibleDownload(progress: progress, body: body, kind: kind, compensations: compensations))
    }
}
