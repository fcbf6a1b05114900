import AnabranchCore

/// A digest of everything that a store keeps of a synced file, part by part. Two stores that keep the same have the
/// same one, whatever their kinds.
package struct FileDigest: Sendable {
    /// A part, by its name in messages.
    private enum Part: String, CaseIterable {
        case log, segments, generations, state
        case received = "changesets as received"
        case clientFiles = "client files"
        case reciprocals = "reciprocal changesets"
        case schemas = "schemas of readers"
        case views, fields = "fields of views"
        case records = "records of doors"
        case ingested = "ingested objects"
        case keys = "idempotency keys"
    }

    private let head: FileHead
    private let parts: [Part: Checksum]

    /// Reads a file.
    /// - Parameters:
    ///   - id: the store's number for it.
    ///   - body: called with what was read, piece by piece.
    /// - Throws: as `FilePieces.forEach`.
    package init(
        of path: VirtualPath, _ id: SyncedFileID, in store: any CopyableStore,
        _ body: (Commit) throws(HistoryError) -> Void = { _ in }
    ) throws(HistoryError) {
        var pieces = FilePieces(of: path, id, in: store), parts: [Part: Checksum] = [:]
        var head = try pieces.forEach { piece throws(HistoryError) in
            Self.add(piece, to: &parts, Checksum(startOf: path))
            try body(piece)
        }
        // Counted in shared stores alone.
        head.bounds = 0
        (self.head, self.parts) = (head, parts)
    }

    /// The name of the first part that is another one; nil if the digests are the same.
    package func difference(from other: FileDigest) -> String? {
        if head != other.head { return "head" }
        return Part.allCases.first { parts[$0] != other.parts[$0] }?.rawValue
    }

    /// - Parameter start: the checksum with which those of the file begin.
    private static func add(_ piece: Commit, to parts: inout [Part: Checksum], _ start: Checksum) {
        func fold(_ checksum: Checksum, into part: Part) {
            parts[part] = (parts[part] ?? start).keyed([checksum.low, checksum.high], [])
        }
        for entry in piece.entries { parts[.log] = (parts[.log] ?? start).following(entry) }
        for received in piece.received { fold(start.covering(received), into: .received) }
        for file in piece.clientFiles { fold(start.covering(file), into: .clientFiles) }
        for change in piece.reciprocals { fold(start.covering(change), into: .reciprocals) }
        for (ident, schema) in piece.withheldSchemas.sorted(by: { $0.key < $1.key }) {
            fold(start.covering(schema: schema, of: ident), into: .schemas)
        }
        for view in piece.views {
            fold(start.covering(view.record, view.record.predicates.json.encoded), into: .views)
            for entry in view.entries { fold(start.covering(entry, of: view.record.ident), into: .views) }
        }
        for field in piece.viewFields {
            let names = start.keyed([field.name == nil ? 0 : 1], field.className).keyed([], field.name ?? [])
            fold(names.keyed([field.since.map { $0.rawValue + 1 } ?? 0], []), into: .fields)
        }
        for change in piece.records {
            let record = DoorRecord(place: change.place, value: change.value ?? [], expiresAt: change.expiresAt)
            fold(start.covering(record), into: .records)
        }
        for object in piece.ingested { fold(start.covering(object), into: .ingested) }
        guard let copied = piece.copied else { return }
        if let beginning = copied.beginning {
            for place in [beginning.base, beginning.rows] {
                fold(place.chain.keyed([place.version.rawValue, place.cumulativeSize], []), into: .log)
            }
            fold(start.keyed([beginning.baseSalt.rawValue, beginning.rowsSalt.rawValue], []), into: .log)
        }
        for segment in copied.segments {
            fold(start.keyed([segment.kind.number, segment.last.rawValue], segment.block), into: .segments)
        }
        for generation in copied.generations { fold(start.covering(generation), into: .generations) }
        for write in copied.idempotencyKeys { fold(start.keyed([write.version.rawValue], write.key), into: .keys) }
        for (address, bytes) in copied.stateRows {
            let name = start.keyed([UInt64(address.classID.rawValue), address.part], address.key)
            fold(name.keyed([], bytes), into: .state)
        }
    }
}

extension Checksum {
    /// A checksum of an entry of a client file's view with its contents, wherever these are kept.
    fileprivate func covering(_ entry: ViewEntry, of ident: ClientFileID) -> Checksum {
        keyed(
            [
                ident.rawValue, entry.number, entry.version.rawValue, entry.clientVersion.rawValue,
                entry.timestamp.rawValue, entry.origin.rawValue, entry.bootstrap.map { $0 + 1 } ?? 0,
                entry.isInLog ? 1 : 0, UInt64(entry.sentBytes), entry.contents?.merged == nil ? 0 : 1,
            ], entry.contents?.changeset ?? []
        )
        .keyed([], entry.contents?.merged ?? []).keyed([], entry.contents?.compensation?.encoded ?? [])
    }
}

extension CopiedSegment.Kind {
    fileprivate var number: UInt64 {
        switch self {
        case .log: 0
        case .archive: 1
        case .generation(let version): version.rawValue + 1
        }
    }
}
