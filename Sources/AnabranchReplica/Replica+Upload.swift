public import AnabranchCore

// The uploads of a replica (`Spec/History.md`, section 12.2).

extension Replica: SessionFile {
    /// See `SessionFile`.
    public var file: SaltedFileID? { record.file }

    /// See `SessionFile`.
    public var progress: DownloadProgress { record.progress }

    /// See `SessionFile`.
    public var version: ClientVersion { record.version }

    /// See `SessionFile`.
    public var activeSubscriptions: SubscriptionSet? { record.subscriptions?.identified }

    /// See `SessionFile`.
    public func unsentSubscriptions(after version: QueryVersion) -> UnsentSubscriptions? {
        record.subscriptions?.unsent(after: version)
    }

    /// See `SessionFile`.
    public var needsMark: Bool { !record.hasSynced || record.subscriptions?.active?.state == .awaitingMark }

    /// Begins the uploads of a session: changes that were uploaded and not acknowledged are uploaded again.
    public mutating func startUploading() { uploaded = record.progress.upload }

    /// True if all changes up to a version were uploaded in this session.
    public func hasUploaded(through version: ClientVersion) -> Bool {
        !log.versions(after: uploaded.clientVersion).contains { $0.number <= version && $0.bytes > 0 }
    }

    /// The version of the newest local change; 0 if all of them are acknowledged.
    public var newestChange: ClientVersion { log.newestChange?.number ?? 0 }

    /// True if the server has acknowledged all local changes.
    public var isAcknowledged: Bool { newestChange <= record.progress.upload.clientVersion }

    /// The local changes that the server has not acknowledged, in transactions and in bytes.
    public var unacknowledged: (changesets: Int, bytes: Int) {
        log.versions(after: record.progress.upload.clientVersion).reduce(into: (0, 0)) { sum, version in
            if version.bytes > 0 { sum = (sum.0 + 1, sum.1 + version.bytes) }
        }
    }

    /// The size of the largest local change that the server has not acknowledged; nil if there is none.
    package var largestUnsentBytes: Int? {
        log.versions(after: record.progress.upload.clientVersion).map(\.bytes).max()
    }

    /// The objects that unacknowledged local changes are about, by version, ascending, with the times of the changes.
    package func unacknowledgedObjects(
        after version: ClientVersion
    ) throws(ReplicaError) -> [(version: ClientVersion, time: ChangesetTime, objects: [TouchedObject])] {
        try ReplicaError.catching {
            try log.versions(after: max(version, record.progress.upload.clientVersion)).compactMap { version in
                guard version.bytes > 0 else { return nil }
                var arena = ChangesetArena()
                let changeset = try store.changeset(of: version.number)
                let index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 0, ident: 0))
                return (version.number, version.timestamp, arena.touchedObjects(of: index))
            }
        }
    }

    /// The next UPLOAD: changesets of `uploadBytes` or a little more, and the place in the log that it reaches. Nil if
    /// there is nothing to send.
    public mutating func nextUpload(through last: ClientVersion = ClientVersion(rawValue: .max)) throws -> Upload? {
        try nextUpload(through: last, countMax: .max)
    }

    /// - Parameters:
    ///   - countMax: The largest number of changesets.
    ///   - isProgressTold: Whether it also tells of versions without changes after the last changeset.
    package mutating func nextUpload(
        through last: ClientVersion, countMax: Int, isProgressTold: Bool = true
    ) throws -> Upload? {
        var upload = Upload(progress: uploaded, lockedVersion: record.progress.cursor.serverVersion)
        var bytes = 0
        for version in log.versions(after: uploaded.clientVersion) {
            guard version.number <= last, upload.changesets.count < countMax else { break }
            guard version.bytes > 0 || isProgressTold else { continue }
            let place = UploadCursor(clientVersion: version.number, serverVersion: version.base)
            if version.bytes > 0 {
                let hasRoom = bytes + version.bytes < ReplicaLimits.uploadBytesMax
                guard bytes == 0 || bytes < ReplicaLimits.uploadBytes && hasRoom else { break }
                let changeset = try ReplicaError.catching { try store.changeset(of: version.number) }
                upload.changesets.append(
                    UploadedChangeset(cursor: place, timestamp: version.timestamp, changeset: changeset))
                bytes += version.bytes
            }
            upload.progress = place
        }
        guard upload.progress != uploaded else { return nil }
        let tellsNothing = upload.changesets.isEmpty && upload.progress.serverVersion == uploaded.serverVersion
        uploaded = upload.progress
        return tellsNothing ? nil : upload
    }
}

/// The limits of what a replica sends and stores in one piece (`Spec/History.md`, section 12.2).
package enum ReplicaLimits {
    /// The size of an UPLOAD, in bytes of changesets: it ends after the changeset that reaches it.
    package static let uploadBytes = 131_072
    /// The size below which an UPLOAD stays unless a single changeset is larger, in bytes of changesets.
    package static let uploadBytesMax = 16_777_216
    /// The largest changeset of a bootstrap that can be stored, in bytes.
    package static let bootstrapChangesetBytesMax = 16 << 20
}
