import AnabranchCore

@testable import AnabranchHistory

/// The same integration without any index: every entry above the base that is not the client's own takes part, and
/// nothing is remembered but what section 6 of `Spec/History.md` names.
struct ReferenceServer {
    private(set) var log: [LogEntry] = []
    private var reciprocals: [ClientFileID: [ServerVersion: [UInt8]]] = [:]

    mutating func integrate(_ upload: Upload, from ident: ClientFileID) throws {
        var arena = ChangesetArena()
        let incoming = try upload.changesets.map { changeset in
            let tag = OriginTag(timestamp: changeset.timestamp, ident: ident)
            return try arena.decode(changeset.changeset, version: changeset.cursor.clientVersion.rawValue, tag: tag)
        }
        var ours: [(version: ServerVersion, index: ChangesetIndex)] = []
        if let lowest = upload.changesets.first?.cursor.serverVersion {
            for entry in log where entry.version > lowest && entry.origin != ident && !entry.changeset.isEmpty {
                let form = reciprocals[ident]?[entry.version] ?? entry.changeset
                ours.append((entry.version, try arena.decode(form, version: entry.version.rawValue, tag: entry.tag)))
            }
        }
        var start = 0
        while start < incoming.count {
            let base = upload.changesets[start].cursor.serverVersion
            var end = start
            while end < incoming.count, upload.changesets[end].cursor.serverVersion == base { end += 1 }
            let local = ours.filter { $0.version > base }.map(\.index)
            if !local.isEmpty { try arena.merge(local: local, incoming: Array(incoming[start..<end])) }
            start = end
        }
        for (version, index) in ours where arena.isDirty(index) {
            reciprocals[ident, default: [:]][version] = arena.encoded(index)
        }
        for (changeset, index) in zip(upload.changesets, incoming) {
            let bytes = arena.encoded(index)
            log.append(
                LogEntry(
                    version: ServerVersion(log.count + 1), salt: 0, origin: ident,
                    clientVersion: changeset.cursor.clientVersion, timestamp: changeset.timestamp,
                    cumulativeSize: (log.last?.cumulativeSize ?? 0) + UInt64(bytes.count), changeset: bytes,
                    base: changeset.cursor.serverVersion))
        }
    }

    /// A log entry as the client has to see it.
    func form(of version: ServerVersion, for ident: ClientFileID) -> [UInt8] {
        reciprocals[ident]?[version] ?? log[Int(version.rawValue) - 1].changeset
    }
}

/// True if two changesets do the same. Names that R8 has appended stand in the order of the runs of merging, which is
/// another one where a client merges less at once (`Spec/Transform.md`, section 2.3).
func haveSameInstructions(_ one: [UInt8], _ other: [UInt8]) throws -> Bool {
    func texts(of changeset: [UInt8]) throws -> [String] {
        var arena = ChangesetArena()
        let index = try arena.decode(changeset, version: 0, tag: OriginTag(timestamp: 0, ident: 0))
        return arena.instructions(of: index).map { arena.text(of: $0) }
    }
    return try one == other || texts(of: one) == texts(of: other)
}
