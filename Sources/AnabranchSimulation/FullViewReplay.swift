package import AnabranchCore
package import AnabranchHistory
import AnabranchRules
import AnabranchTesting

/// A replay of what a file of partition-based sync has integrated, in a flexible file whose clients all see everything:
/// the two have to behave alike (`Spec/FlexibleSync.md`).
package struct FullViewReplay {
    package typealias Uploaded = (client: ClientFileID, changeset: UploadedChangeset)

    private let original: SyncedFile
    private let file: SyncedFile
    private let flexible: FlexibleFile
    private var sessions: [ClientFileID: ViewSession] = [:]
    private var received: [ClientFileID: [DownloadedChangeset]] = [:]
    /// The version at which every client sees everything: the schema.
    private let start: ServerVersion

    /// - Returns: a description of the first difference; nil if there is none.
    package static func difference(from original: SyncedFile, of uploads: [Uploaded]) throws -> String? {
        var replay = try FullViewReplay(original, clients: Set(uploads.map(\.client)).sorted())
        for (number, (client, changeset)) in uploads.enumerated() {
            // The client may be up to date, and others may learn of one entry or of several at once.
            try replay.download(client)
            guard try replay.integrate(changeset, from: client) else { return "changeset \(number) is refused in part" }
            try replay.download(uploads[number * 7 % uploads.count].client)
        }
        return try replay.difference()
    }

    /// True if flexible sync can do the same with a changeset: flexible sync removes no classes and columns, has no
    /// objects without primary keys, sends objects of asymmetric classes to nobody, and erases objects in nobody's
    /// name.
    package static func isComparable(_ changeset: [UInt8], in state: ObjectGraph) throws -> Bool {
        guard try FlexibleRun.isFlexible(changeset) else { return false }
        var arena = ChangesetArena()
        let index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 1, ident: .server))
        return !arena.instructions(of: index).contains { $0.kind == .eraseObject }
            && !arena.touchedObjects(of: index).contains {
                state.schema(ofClass: $0.className)?.kind == .topLevelAsymmetric
            }
    }

    private init(_ original: SyncedFile, clients: [ClientFileID]) throws {
        self.original = original
        file = try SyncedFile(path: VirtualPath("replay"), store: InMemoryStore())
        let count = Int((clients.last?.rawValue ?? 1) - ClientFileID.server.rawValue)
        let idents = try file.allocateIdents(for: Array(repeating: nil, count: count), at: 1)
        flexible = try FlexibleFile(file)
        let state = try original.withState { $0 }
        try flexible.write(at: 1) { try $0.addClasses(of: state) }
        var everything: [String: String] = [:]
        for schema in state.classes where schema.kind == .topLevel {
            everything[String(decoding: schema.name, as: UTF8.self)] = "TRUEPREDICATE"
        }
        let set = SubscriptionSet(version: 1, query: try FlexibleRun.query(everything))
        for ident in idents where clients.contains(ident.ident) {
            let request = IdentRequest(
                file: ident, download: DownloadCursor(), latest: SaltedVersion(), subscriptions: SubscriptionSet.none)
            var session = try flexible.identify(request)
            if let refusal = try flexible.query(set, in: &session) { throw InputError(description: refusal) }
            while try flexible.download(for: &session) != nil {}
            sessions[ident.ident] = session
        }
        start = file.version
    }

    private func integrate(_ changeset: UploadedChangeset, from client: ClientFileID) throws -> Bool {
        var changeset = changeset
        changeset.cursor.serverVersion = inReplay(changeset.cursor.serverVersion)
        return try flexible.integrate(Upload(progress: changeset.cursor, changesets: [changeset]), from: client, at: 1)
            .objects.isEmpty
    }

    private func inReplay(_ version: ServerVersion) -> ServerVersion {
        ServerVersion(rawValue: version.rawValue + start.rawValue)
    }

    private mutating func download(_ client: ClientFileID) throws {
        guard var session = sessions[client] else { return }
        while let message = try flexible.download(for: &session, byteBudget: 100) {
            received[client, default: []] += message.download.changesets.filter { $0.cursor.serverVersion > start }
        }
        sessions[client] = session
    }

    private mutating func difference() throws -> String? {
        let expected = try original.log(), found = try file.log(after: start)
        guard expected.count == found.count else { return "\(found.count) versions, not \(expected.count)" }
        for (one, other) in zip(expected, found) {
            let isSame =
                (one.origin, one.clientVersion, one.timestamp) == (other.origin, other.clientVersion, other.timestamp)
                && one.changeset == other.changeset
            if !isSame { return "version \(one.version) is \(Hex.encode(other.changeset))" }
        }
        let state = try original.withState { try StateDigest(of: $0) }
        for client in sessions.keys.sorted() {
            try download(client)
            let sent = try original.downloads(for: client).download(after: DownloadCursor(), byteBudget: .max)
            let expected = sent.changesets.filter { !$0.changeset.isEmpty }
            let found = received[client, default: []]
            let isSame = expected.elementsEqual(found) { one, other in
                inReplay(one.cursor.serverVersion) == other.cursor.serverVersion
                    && one.cursor.clientVersion == other.cursor.clientVersion && one.tag == other.tag
                    && one.changeset == other.changeset
            }
            guard isSame else { return "client \(client) is sent something else" }
            guard try StateDigest(of: flexible.visibleState(to: client, by: .everything)) == state else {
                return "client \(client) sees another state"
            }
        }
        return nil
    }
}

extension WriteTransaction {
    fileprivate func addClasses(of state: ObjectGraph) throws {
        func text(_ name: [UInt8]) -> String { String(decoding: name, as: UTF8.self) }
        for schema in state.classes {
            if let key = schema.key {
                let isAsymmetric = schema.kind == .topLevelAsymmetric
                try addClass(
                    text(schema.name), key: text(key.name), key.type, isNullable: key.isNullable,
                    isAsymmetric: isAsymmetric)
            } else {
                try addEmbeddedClass(text(schema.name))
            }
        }
        let names = Dictionary(uniqueKeysWithValues: state.classes.map { ($0.number, text($0.name)) })
        for schema in state.classes {
            for property in schema.properties {
                if let target = property.target.flatMap({ names[$0] }) {
                    try addLink(text(property.name), to: target, collection: property.collection, of: text(schema.name))
                } else {
                    try addColumn(
                        text(property.name), property.type, isNullable: property.isNullable,
                        collection: property.collection, to: text(schema.name))
                }
            }
        }
    }
}
