package import AnabranchCore

/// Clients whose users may only read. An SDK that opens a partition writes the schema of its app into the local file
/// first, and uploads it like everything else; so to upload a schema is not a write (`Spec/Server.md`, section 3).
extension SyncedFile {
    /// Takes the schema out of an upload by the client of a reader. The classes and columns that the file lacks stay
    /// the client's own; they are withheld until the user may write. An entry without a changeset acknowledges them:
    /// SDKs wait for that.
    ///
    /// - Returns: the names of the classes and columns that the file lacks, at most a few of them.
    /// - Throws: `writeNotAllowed`, with the objects, if there are other changes; `badChangeset` if one cannot be read,
    ///   or contradicts the file about a class or column; `tooLarge`; a failure of the store.
    package func withholdSchema(of upload: inout Upload) throws(HistoryError) -> [String] {
        var missing: [String] = []
        try follow()
        let state = try currentState()
        for sent in upload.changesets {
            var arena = ChangesetArena()
            let index: ChangesetIndex
            do {
                index = try arena.decode(
                    sent.changeset, version: 1, tag: OriginTag(timestamp: 0, ident: 0),
                    memoryBytesMax: mergeOptions.decodedBytesMax)
            } catch {
                throw HistoryError(error, inChangeset: sent.cursor.clientVersion.rawValue)
            }
            try arena.requireSchemaOnly(index, of: sent)
            guard var state else { continue }
            let lacking = arena.takeSchema(of: index, missingFrom: state)
            missing += lacking.names.prefix(10 - missing.count)
            if !lacking.changeset.isEmpty { upload.withheldSchemas.append(lacking.changeset) }
            // The remaining definitions are there, and agree or fail.
            do { _ = try state.applyTransactions([index], of: &arena) { _ in false } } catch {
                guard error.code != .unavailable else { throw HistoryError(readingStateFailed: error) }
                throw HistoryError(.badChangeset, "\(error)")
            }
        }
        upload.changesets = upload.changesets.suffix(1).map { sent in
            var emptied = sent
            emptied.changeset = []
            return emptied
        }
        return missing
    }

    /// The client version up to which the changes of a client file were integrated.
    /// - Parameter user: as of `identify`.
    /// - Returns: 0 if there is no such file, or it is another user's.
    package func integratedVersion(of claimed: SaltedFileID, user: String?) throws(HistoryError) -> ClientVersion {
        let found = try retrying { () throws(HistoryError) in
            if isShared { tail?.forget(claimed.ident) }
            return try read(missesTail: false) { view throws(HistoryError) in try current(claimed.ident, in: view) }
        }
        guard let found, found.salt != 0, found.salt == claimed.salt, !found.isExpired,
            user == nil || user.hasBytes(of: found.user)
        else { return 0 }
        return found.uploadCursor.clientVersion
    }
}

extension Upload {
    /// The largest withheld schema that is kept for one client file, in bytes. A client with more starts over when it
    /// needs the schema: it is refused with `badChangeset`.
    package static let withheldSchemaBytesMax = 64 << 10
}

extension ChangesetArena {
    /// One changeset with the instructions of several, all encoded.
    static func joined(_ changesets: [[UInt8]]) throws(HistoryError) -> [UInt8] {
        var arena = ChangesetArena()
        for changeset in changesets {
            do {
                _ = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 0, ident: 0))
            } catch {
                throw HistoryError(.badChangeset, "at byte \(error.offset): \(error.reason)")
            }
        }
        return arena.encoded(joining: arena.changesets)
    }

    private static var namedObjectsMax: Int { 100 }

    /// - Throws: `writeNotAllowed` if the changeset does anything but add classes and columns.
    fileprivate func requireSchemaOnly(
        _ changeset: ChangesetIndex, of sent: UploadedChangeset
    ) throws(HistoryError) {
        let isSchema = instructions(of: changeset).allSatisfy { $0.kind == .addTable || $0.kind == .addColumn }
        guard !isSchema else { return }
        var error = HistoryError(.writeNotAllowed, "the user may only read this partition")
        error.refusal = CompensatingWrite(
            version: 0, clientVersion: sent.cursor.clientVersion,
            objects: touchedObjects(of: changeset).prefix(Self.namedObjectsMax).map {
                CompensatingWrite.Object(refusing: $0)
            })
        throw error
    }
}
