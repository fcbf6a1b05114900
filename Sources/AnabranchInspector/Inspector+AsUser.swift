import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchServer
import NIOHTTP1

/// A user, or one of a user's clients, through whose eyes a file is shown.
struct Viewer: Sendable {
    let access: UserAccess
    /// Nil for everything that the user may read.
    let client: Client?

    /// A client of the user.
    struct Client: Sendable {
        let ident: ClientFileID
        /// The queries of flexible sync.
        let predicates: Predicates
    }

    /// The part of the file that is seen.
    var seen: Seen {
        guard !access.isRefused else { return .nothing }
        return (client.map { access.sight(asking: $0.predicates) } ?? access.sight).map(Seen.objects) ?? .everything
    }
}

/// The part of a file that is shown.
enum Seen: Hashable, Sendable {
    /// The full view.
    case everything
    case nothing
    case objects(Sight)

    func objects(in state: ObjectGraph) -> SeenObjects {
        switch self {
        case .everything: .everything
        case .nothing: .nothing
        case .objects(let sight): .some(sight.objects(in: state))
        }
    }
}

/// The objects of a state that are shown.
enum SeenObjects {
    case everything, nothing
    case some(VisibleObjects)

    func include(_ object: StateObject, of className: [UInt8], in state: ObjectGraph) throws(HistoryError) -> Bool {
        switch self {
        case .everything: true
        case .nothing: false
        case .some(let objects): try objects.include(object, of: className, in: state)
        }
    }
}

extension Viewer? {
    /// The part of the file that is shown: all of it without a viewer.
    var seen: Seen { self?.seen ?? .everything }
}

/// A file as one user sees it (`Spec/Inspector.md`, section 3).
extension Inspector {
    /// The most client files that are looked at to find those of a user, and the most of them in an answer.
    static let ownersMax = 20_000
    private static let ownClientsMax = 50

    /// The user through whose eyes a page is shown; nil for the full view.
    func viewer(_ query: PageQuery) async throws(PageError) -> Viewer? {
        guard let user = query["as"] else { return nil }
        guard let found = await access.access(of: user, to: access.file(at: try query.path())) else {
            throw PageError(.notFound, "NoSuchUser", "there is no user \(user.prefix(100))")
        }
        guard query["client"] != nil else { return Viewer(access: found, client: nil) }
        let ident = ClientFileID(rawValue: try query.number("client", 2...UInt64(Int64.max)))
        let path = access.file(at: try query.path()), catalog = access.catalog, store = access.store
        return try await reads.run {
            let file = try catalog.clientFiles(of: path, after: ClientFileID(rawValue: ident.rawValue - 1), countMax: 1)
                .first
            guard let file, file.ident == ident, file.user.hasBytes(of: user) else {
                throw PageError.noSuch("client of the user")
            }
            let predicates = try Self.predicates(of: ident, at: path, catalog, store)
            return Viewer(access: found, client: Viewer.Client(ident: ident, predicates: predicates))
        }
    }

    /// The queries of a client of a flexible file; none of another one.
    private static func predicates(
        of client: ClientFileID, at path: VirtualPath, _ catalog: any HistoryCatalog, _ store: any HistoryStore
    ) throws -> Predicates {
        guard let id = try catalog.id(of: path) else { throw PageError.noSuch("file") }
        return try (store as? any ViewStore)?.view(of: id, client)?.record.predicates ?? [:]
    }

    /// The clients of a user that have not expired.
    private func clients(
        of user: String, at path: VirtualPath
    ) async throws(PageError) -> (found: [Viewer.Client], isCut: Bool) {
        let path = access.file(at: path), catalog = access.catalog, store = access.store
        return try await reads.run {
            var found: [Viewer.Client] = [], last: ClientFileID = 0, looked = 0
            while looked < Self.ownersMax {
                let files = try catalog.clientFiles(of: path, after: last, countMax: 1_000)
                for file in files where file.user.hasBytes(of: user) && !file.isExpired {
                    guard found.count < Self.ownClientsMax else { return (found, true) }
                    let predicates = try Self.predicates(of: file.ident, at: path, catalog, store)
                    found.append(Viewer.Client(ident: file.ident, predicates: predicates))
                }
                guard let end = files.last?.ident else { return (found, false) }
                last = end
                looked += files.count
            }
            return (found, true)
        }
    }

    /// The permissions of a user on a file and what decides them: all of them, or those on one class; and whether the
    /// user sees one object. A file that nobody has made yet has permissions, too.
    func asUser(_ query: PageQuery) async throws(PageError) -> String {
        guard let viewer = try await viewer(query) else { throw .badRequest("as is missing") }
        let className = query["class"], key = query["key"] == nil ? nil : try query.key()
        let (clients, isCut) = try await clients(of: viewer.access.user, at: try query.path())
        let refusals = access.refusals(of: viewer.access.user)
        let path = access.file(at: try query.path()), catalog = access.catalog
        guard try await reads.run({ try catalog.id(of: path) != nil }) else {
            var members = viewer.members(of: path, version: 0, refusals)
            members.merge(["exists": false, "clients": [], "clients_cut": false]) { $1 }
            if case .flexible = viewer.access.decision { members["classes"] = [] }
            return JSONValue.object(members).encoded
        }
        return try await reads.read(path, at: try query.version("at")) { view in
            var members = viewer.members(of: view.path, version: view.version, refusals)
            members["exists"] = true
            members["clients_cut"] = .bool(isCut)
            if case .flexible(let roles) = viewer.access.decision {
                members["classes"] = .array(view.roles(roles, onClass: className))
            }
            members["clients"] = .array(clients.map { $0.json(onClass: className) })
            if let className, let key {
                members["object"] = try view.verdict(on: key, className, viewer, clients)
            }
            return JSONValue.object(members).encoded
        }
    }
}

extension Viewer {
    /// The answer about the user, without what depends on the file's contents.
    fileprivate func members(
        of path: VirtualPath, version: ServerVersion, _ refusals: [RecentRefusals.Refusal]
    ) -> [String: JSONValue] {
        var members: [String: JSONValue] = [
            "path": .string(path.description), "version": .integer(Int64(clamping: version.rawValue)),
            "user": .string(access.user), "notes": .array(access.notes.map { .string($0) }),
            "refused": .bool(access.isRefused),
            "client": client.map { .integer(Int64(clamping: $0.ident.rawValue)) } ?? .null,
            "refusals": .array(refusals.map(\.json)),
        ]
        switch access.decision {
        case .refused(let reason): members["reason"] = .string(reason)
        case .partition(let permissions): members["permissions"] = .array(permissions.map(\.json))
        case .flexible(let roles): members["no_rules"] = .bool(roles.areMissing)
        }
        return members
    }
}

extension RecentRefusals.Refusal {
    fileprivate var json: JSONValue {
        [
            "time": .integer(Int64(clamping: time)), "path": path.map { .string($0) } ?? .null,
            "code": .string(code), "reason": .string(reason),
        ]
    }
}

extension Viewer.Client {
    /// The most bytes of a query, and the most queries, that are shown.
    private static let queryBytesMax = 500, queriesMax = 50

    fileprivate func json(onClass className: String?) -> JSONValue {
        let shown = predicates.filter { className.map($0.key.text.hasBytes) ?? true }.prefix(Self.queriesMax)
        var queries: [JSONName: JSONValue] = [:]
        for (name, text) in shown {
            queries[JSONName(name.text)] = .string(String(excerptOf: text.utf8, upTo: Self.queryBytesMax))
        }
        return ["client": .integer(Int64(clamping: ident.rawValue)), "queries": .object(queries)]
    }
}

extension PageView {
    /// The roles of a user on one class, or on all of them as far as they fit into an answer.
    fileprivate func roles(_ roles: RolesOfUser, onClass className: String?) -> [JSONValue] {
        var found: [JSONValue] = [], bytesLeft = ValueText.answerBytesMax
        for schema in state.classes where schema.kind != .embedded && bytesLeft > 0 {
            guard className == nil || Array((className ?? "").utf8) == schema.name else { continue }
            let role = roles.json(of: schema, in: state)
            bytesLeft -= role.encoded.utf8.count
            found.append(role)
        }
        return found
    }

    /// Says what a user may do with an object, and which of the user's clients have it.
    fileprivate func verdict(
        on key: PrimaryKey, _ className: String, _ viewer: Viewer, _ clients: [Viewer.Client]
    ) throws -> JSONValue {
        let schema = try schema(className)
        guard let object = try object(schema, key) else { return ["exists": false] }
        func isSeen(by client: Viewer.Client?) throws -> Bool {
            try Viewer(access: viewer.access, client: client).seen.objects(in: state)
                .include(object, of: schema.name, in: state)
        }
        var members: [String: JSONValue] = [
            "exists": true, "readable": .bool(try isSeen(by: nil)), "seen": .bool(try isSeen(by: viewer.client)),
            "clients": .array(
                try clients.map {
                    ["client": .integer(Int64(clamping: $0.ident.rawValue)), "has": .bool(try isSeen(by: $0))]
                }),
        ]
        if case .flexible(let roles) = viewer.access.decision {
            let rights = try roles.rights(on: object, of: schema, in: state)
            let texts = ValueTexts(of: state)
            var cell = ValueText.cell, values: [JSONName: JSONValue] = [:]
            for name in roles.fields(ofClass: className) {
                guard let property = schema.property(named: Array(name.utf8)) else { continue }
                values[JSONName(name)] = try JSONValue(parsing: cell.json(of: object.value(of: property), texts).utf8)
            }
            members["changeable"] = .bool(rights.change)
            members["deletable"] = .bool(rights.delete)
            members["values"] = .object(values)
        }
        return .object(members)
    }
}

extension UserAccess.OnPartition {
    fileprivate var json: JSONValue {
        [
            "provider": provider.map { .string($0) } ?? .null, "permission": .string(permission.rawValue),
            "reason": .string(reason), "rule": rule.map { .integer(Int64($0.number)) } ?? .null,
            "text": rule.map { .string($0.text) } ?? .null,
        ]
    }
}
