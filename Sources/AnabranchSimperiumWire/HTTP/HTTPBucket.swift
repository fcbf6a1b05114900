import AnabranchCore
import AnabranchHistory
import AnabranchServer
import AnabranchSimperium
import NIOHTTP1

/// One bucket of a user, as requests read and write it.
struct HTTPBucket: Sendable {
    /// How many changes a request may have.
    static let changesMax = 1_000

    let name: String
    let file: SyncedBuckets
    let settings: BucketSettings
    let principal: Principal
    let isWritable: Bool
    /// How long a request for changes waits, in seconds.
    let newsSeconds: Int
    /// How many changes a user may send in a minute.
    let changesPerMinuteMax: Int
    /// How many entities the listings of a user may pass over in a minute.
    let skipsPerMinuteMax: Int

    func respond(
        _ request: EndpointRequest, _ query: FormFields, _ body: [UInt8], _ target: DataPath.Target
    ) async throws -> EndpointResponse {
        let permit = request.method == .POST ? await file.admission.enter(body.count) : nil
        defer { withExtendedLifetime(permit) {} }
        guard request.method != .POST || permit != nil else {
            throw DataRefusal(.serviceUnavailable, "too many long changes wait")
        }
        switch (request.method, target) {
        case (.GET, .index): return try await list(ListingRequest(query))
        case (.GET, .entity(let key, let version)): return try await read(key, at: version)
        case (.POST, .entity(let key, let version)):
            let operation = ChangeRequest.Operation.set(try Self.members(body), replaces: query.isSet("replace"))
            return try await write(self.request(operation, key, version, query), hasResponse: query.isSet("response"))
        case (.DELETE, .entity(let key, let version)):
            return try await write(self.request(.delete, key, version, query), hasResponse: false)
        case (.GET, .changes):
            return try await news(request, NewsRequest(query, username: nil))
        case (.GET, .all):
            let name = principal.simperiumName
            return try await news(request, NewsRequest(query, username: query.isSet("username") ? name : nil))
        case (.POST, .changes): return try await write(body, query)
        default: throw DataRefusal(.methodNotAllowed, "the method is not allowed here")
        }
    }

    // MARK: Requests

    private static func check(_ key: String) throws(DataRefusal) {
        guard EntityKey.isValid(key) else { throw DataRefusal(.badRequest, "key: \(EntityKey.rule)") }
    }

    private static func check(_ ident: String, _ name: String) throws(DataRefusal) {
        guard ChangeRequest.isIdent(ident) else {
            throw DataRefusal(.badRequest, "\(name): \(ChangeRequest.identRule)")
        }
    }

    private static func json(_ body: [UInt8]) throws(DataRefusal) -> JSONValue {
        do { return try Change.json(body) } catch {
            throw DataRefusal(.badRequest, "the body is not JSON: \(error.reason), at byte \(error.offset)")
        }
    }

    private static func members(_ body: [UInt8]) throws(DataRefusal) -> EntityBody {
        let json = try json(body), members: EntityBody?
        do { members = try json.normalized().members } catch { throw DataRefusal(.badRequest, error.description) }
        guard let members else { throw DataRefusal(.badRequest, "the body is not an object") }
        return members
    }

    // MARK: Reading

    private func list(_ request: ListingRequest) async throws -> EndpointResponse {
        let name = name
        let page = try await file.read { try $0.page(request, of: $0.records.bucket(named: name), named: name) }
        guard file.clients.admitSkips(page.passedCount, atMost: skipsPerMinuteMax) else {
            throw DataRefusal(.serviceUnavailable, "listings pass over too many entities in a minute")
        }
        return EndpointResponse(status: .ok, text: page.text)
    }

    private func read(_ key: String, at version: UInt64?) async throws -> EndpointResponse {
        try Self.check(key)
        let name = name
        let found = try await file.read { reader -> (UInt64, EntityBody)? in
            guard let bucket = try reader.records.bucket(named: name),
                let newest = try reader.records.entity(key, of: bucket)
            else { return nil }
            let version = version ?? newest.version
            return try reader.entity(key, of: bucket, at: version).map { (version, $0) }
        }
        guard let (version, body) = found else { throw DataRefusal(.notFound, "no such entity or version") }
        return Self.response(JSONValue.object(body).encoded, version)
    }

    private static func response(_ text: String, _ version: UInt64) -> EndpointResponse {
        var response = EndpointResponse(status: .ok, text: text)
        response.headers.add(name: "X-Simperium-Version", value: "\(version)")
        return response
    }

    // MARK: Writing

    /// The change of one entity. Without a `ccid` it is another one whenever it comes.
    private func request(
        _ operation: ChangeRequest.Operation, _ key: String, _ version: UInt64?, _ query: FormFields
    ) throws -> ChangeRequest {
        let client = query["clientid"] ?? Change.otherClient
        let ident = query["ccid"] ?? Hex.encode((0..<16).map { _ in UInt8.random(in: .min ... .max) })
        try Self.check(key)
        try Self.check(client, "clientid")
        try Self.check(ident, "ccid")
        return ChangeRequest(
            key: key, ident: ident, client: client, operation: operation, source: version, isNode: false)
    }

    private func write(_ request: ChangeRequest, hasResponse: Bool) async throws -> EndpointResponse {
        try admitChanges(1)
        if let outcome = try await file.perform([request], on: name, settings).first, var code = outcome.code {
            // What is not there has no deletion.
            if case .delete = request.operation, code == 412 { code = 404 }
            throw DataRefusal(HTTPResponseStatus(statusCode: code), outcome.reason)
        }
        let (change, body) = try await accepted(request)
        return Self.response(hasResponse ? JSONValue.object(body ?? [:]).encoded : "", change.version)
    }

    /// Looks whether the user may write, and so much.
    private func admitChanges(_ count: Int) throws(DataRefusal) {
        guard isWritable else { throw DataRefusal(.unauthorized, "no right to write") }
        guard file.clients.admitChanges(count, atMost: changesPerMinuteMax) else {
            throw DataRefusal(.serviceUnavailable, "too many changes in a minute")
        }
    }

    /// The change that was accepted for a request, and the entity after it; nil if that is deleted.
    private func accepted(_ request: ChangeRequest) async throws -> (Change, EntityBody?) {
        let name = name
        return try await file.read { reader in
            guard let bucket = try reader.records.bucket(named: name),
                case .accepted(let place)? = try reader.records.request(request.ident, request.key, of: bucket),
                let change = try reader.records.change(at: place, of: bucket)
            else { throw HistoryError(.storeFailed, "a change is not kept") }
            return (change, try reader.entity(request.key, of: bucket, at: change.version))
        }
    }

    /// Carries out the changes of a list.
    private func write(_ body: [UInt8], _ query: FormFields) async throws -> EndpointResponse {
        let client = query["clientid"] ?? Change.otherClient
        try Self.check(client, "clientid")
        guard let items = try Self.json(body).array, items.count <= Self.changesMax else {
            throw DataRefusal(.badRequest, "the body is not a list of at most \(Self.changesMax) changes")
        }
        try admitChanges(items.count)
        var answers = [String](repeating: "", count: items.count), requests: [(index: Int, ChangeRequest)] = []
        for (index, item) in items.enumerated() {
            do throws(JSONDiffError) {
                var request = try ChangeRequest(item, client: client, isNode: false)
                request.mergesWithoutVersion = true
                requests.append((index, request))
            } catch {
                answers[index] = Channel.error(
                    error.code.rawValue, item["id"]?.string ?? "", item["ccid"]?.string ?? "", client: client,
                    reason: error.description)
            }
        }
        let outcomes = try await file.perform(requests.map(\.1), on: name, settings)
        guard query.isSet("wait") else { return EndpointResponse(status: .ok, text: "[]") }
        for ((index, request), outcome) in zip(requests, outcomes) {
            if let code = outcome.code {
                answers[index] = Channel.error(
                    code, request.key, request.ident, client: client, reason: outcome.reason)
            } else {
                answers[index] = try await accepted(request).0.text
            }
        }
        return EndpointResponse(status: .ok, text: "[\(answers.joined(separator: ","))]")
    }

    // MARK: New changes

    /// Answers with the changes since a version, and waits until there is one.
    private func news(_ request: EndpointRequest, _ news: NewsRequest) async throws -> EndpointResponse {
        guard request.hold(for: principal) else { throw DataRefusal(.serviceUnavailable, "too many connections") }
        let (start, salt) = try await start(of: news)
        let (bucket, seconds) = (self, newsSeconds)
        let told = try await withThrowingTaskGroup(of: [String].self) { group in
            group.addTask { try await bucket.next(news, after: start, of: salt) }
            group.addTask {
                try await Task.sleep(for: .seconds(seconds))
                return []
            }
            defer { group.cancelAll() }
            return try await group.next() ?? []
        }
        return EndpointResponse(status: .ok, text: "[\(told.joined(separator: ","))]")
    }

    /// - Returns: also the number of the history that the point is of.
    private func start(of news: NewsRequest) async throws -> (ChangePlace, salt: UInt64) {
        let name = name
        let start = try await file.read { reader -> (ChangePlace, salt: UInt64)? in
            guard let text = news.cv else { return (reader.door.end, reader.door.salt) }
            return try reader.place(of: text, of: reader.records.bucket(named: name), named: name)
                .map { ($0, reader.door.salt) }
        }
        guard let start else { throw DataRefusal(.notFound, "the change version is not known") }
        return start
    }

    /// The next changes after a point; empty if the server or the task ends before there are any.
    private func next(_ news: NewsRequest, after start: ChangePlace, of salt: UInt64) async throws -> [String] {
        let follower = try file.follow(), name = name
        var place = start
        while true {
            let after = place
            let (texts, told) = try await file.read { reader -> ([String], ToldChanges) in
                let bucket = try reader.records.bucket(named: name)
                guard reader.door.salt == salt, try reader.keepsChanges(of: bucket, after: after) else {
                    throw DataRefusal(.notFound, "the change version is not known")
                }
                let end = max(reader.door.end, after)
                guard let bucket else {
                    return ([], ToldChanges(through: end, isComplete: true))
                }
                let told = try reader.changes(of: bucket, after: after, in: after..<end, foldedFor: nil)
                return (try reader.texts(of: told.changes, in: bucket, as: news), told)
            }
            if !texts.isEmpty { return texts }
            place = told.through
            guard told.isComplete else { continue }
            guard await follower.wait() else { return [] }
        }
    }
}

/// A request for changes (`Spec/Simperium.md`, section 12).
private struct NewsRequest {
    /// The version after which changes are wanted; nil for those from now on.
    let cv: String?
    let hasData: Bool
    let isNewestOnly: Bool
    let countMax: Int
    let skippedClients: Set<ExactString>
    /// The user's name, if every change is to have it.
    let username: String?

    init(_ query: FormFields, username: String?) {
        cv = query["cv"]
        hasData = query.isSet("data")
        isNewestOnly = query.isSet("most_recent")
        countMax = max(1, query["batch"].flatMap { Int($0) } ?? .max)
        skippedClients = Set(query.all("skip_clientid").map { ExactString($0) })
        self.username = username
    }
}

extension BucketReader {
    /// The JSON of changes for one answer: at most 1 MiB, but for an only change that is longer.
    fileprivate func texts(of changes: [Change], in bucket: Bucket, as news: NewsRequest) throws -> [String] {
        var chosen = Array(
            changes.filter { !news.skippedClients.contains(ExactString($0.client)) }.prefix(news.countMax))
        if news.isNewestOnly {
            var seen: Set<ExactString> = []
            chosen = chosen.reversed().filter { seen.insert(ExactString($0.key)).inserted }.reversed()
        }
        var texts: [String] = [], bytes = 0
        for change in chosen {
            var text = String(change.text.dropLast())
            if let name = news.username { text += ",\"username\":\(JSONValue.string(name).encoded)" }
            if news.hasData, !change.isDeletion,
                let body = try entity(change.key, of: bucket, at: change.version)
            {
                text += ",\"d\":\(JSONValue.object(body).encoded)"
            }
            bytes += text.utf8.count + 2
            if !texts.isEmpty, bytes > Self.messageBytesMax { break }
            texts.append(text + "}")
        }
        return texts
    }
}
