import AnabranchCore
import AnabranchSimperium
import Synchronization

@testable import AnabranchSimperiumWire

/// Messages of a client, a line each: on sockets, in frames of SockJS, and by HTTP as a path with a query and, after a
/// space, the body. All that read them do; changes are carried out. At the end, whoever was told the changes has what
/// the server has, also of every version.
func fuzzSimperiumMessages(_ bytes: [UInt8]) -> String? {
    var world = MessageWorld()
    do {
        for line in bytes.split(separator: 10).prefix(32) {
            if let problem = try world.receive(String(decoding: line, as: UTF8.self)) { return problem }
        }
        return try world.problem()
    } catch {
        return "it fails: \(error)"
    }
}

/// Two lines: a request for a page, and a version since which listed entities have changed; or a query by HTTP, after
/// `?`. A mark that was not given out gives the first page of a listing; any other the rest of one.
func fuzzIndexMark(_ bytes: [UInt8]) -> String? {
    let lines = bytes.split(separator: 10, maxSplits: 1).map { String(decoding: $0, as: UTF8.self) }
    let line = lines.first ?? ""
    var request = ListingRequest(line[...])
    if line.hasPrefix("?") {
        guard let query = FormFields(line.utf8.dropFirst()) else { return nil }
        request = ListingRequest(query)
    } else {
        request.since = lines.count > 1 ? lines[1] : ""
    }
    do {
        return try ListingWorld.door.withLock { door in
            guard let door else { return "there is no file" }
            return try door.read { reader in
                if ListingMark(request.mark) == nil {
                    var first = request
                    first.mark = ""
                    let bucket = try reader.onlyBucket(), name = MemoryDoor.bucketName
                    let page = try reader.page(request, of: bucket, named: name)
                    guard try page.text == reader.page(first, of: bucket, named: name).text else {
                        return "what is no mark gives another page"
                    }
                }
                return try reader.listingProblem(request)
            }
        }
    } catch {
        return "it fails: \(error)"
    }
}

/// A bucket of some entities, which were changed and deleted.
private enum ListingWorld {
    static let door: Mutex<MemoryDoor?> = Mutex(try? made())

    private static func made() throws -> MemoryDoor {
        let door = try MemoryDoor()
        for number in 0..<40 {
            let key = "k\(number * number % 11)", isDeletion = number % 7 == 3
            _ = try door.perform(
                ChangeRequest(
                    key: key, ident: "r\(number)", client: "c",
                    operation: isDeletion ? .delete : .set(["n": .integer(Int64(number))], replaces: true),
                    isNode: false))
        }
        return door
    }
}

/// The server's side of a connection, as far as it needs no socket.
private struct MessageWorld {
    /// The files of which something was asked.
    private var doors: [BucketForm: MemoryDoor] = [:]

    /// The file whose bucket has a form.
    private mutating func openedDoor(_ form: BucketForm) throws -> MemoryDoor {
        let opened = try doors[form] ?? MemoryDoor(form)
        doors[form] = opened
        return opened
    }

    /// The form that a channel's bucket has: two channels after each other have the same.
    private func form(_ channel: ChannelName) -> BucketForm {
        [BucketForm.flat, .typed, .deep][Int(channel.number ?? 0) / 2 % 3]
    }

    mutating func receive(_ text: String) throws -> String? {
        for message in SockJSFrame.messages(in: text) ?? [text] {
            if let problem = try take(message) { return problem }
            if let problem = try takeHTTP(message) { return problem }
        }
        return nil
    }

    private mutating func take(_ text: String) throws -> String? {
        _ = SocketPath(text)
        _ = FormFields(text.utf8)
        guard SockJSFrame.messages(in: String(SockJSFrame.message(text).dropFirst())) == [text] else {
            return "a frame of SockJS has another message"
        }
        let message = Message(text)
        guard case .command(let channel, let name, let payload) = message else { return nil }
        guard Message("\(channel.prefix)\(name):\(payload)") == message else { return "written, it is another message" }
        switch name {
        case "init": _ = OpeningRequest(payload)
        case "i":
            let request = ListingRequest(payload)
            return try openedDoor(form(channel)).read { try $0.listingProblem(request) }
        case "e":
            guard let question = EntityQuestion(payload), let version = question.version else { return nil }
            let door = try openedDoor(form(channel))
            try read(question.key, at: version, door)
        case "cv": return try catchUp(String(payload), form(channel))
        case "index": _ = ClientIndex(String(payload))
        case "c":
            let unread = UnreadChanges(payload).map { [$0.key, $0.ident] }
            guard let json = try? Change.json(payload.utf8) else { return nil }
            let changes = json.array ?? [json]
            let names = changes.map { [$0["id"]?.string ?? "", $0["ccid"]?.string ?? ""] }
            // Names of members that are escaped are not found unread; no client writes such.
            guard unread == names || payload.utf8.contains(UInt8(ascii: "\\")) else {
                return "unread, the changes have other names"
            }
            for json in changes.prefix(8) {
                if let problem = try change(json, on: channel) { return problem }
            }
        default: break
        }
        return nil
    }

    private func read(_ key: String, at version: UInt64, _ door: MemoryDoor) throws {
        try door.read { reader in
            if let bucket = try reader.onlyBucket() { _ = try reader.entity(key, of: bucket, at: version) }
        }
    }

    private mutating func catchUp(_ text: String, _ form: BucketForm) throws -> String? {
        guard let cv = ChangeVersion(text) else { return nil }
        guard ChangeVersion(cv.text) == cv else { return "written, it is another version" }
        try openedDoor(form).read { reader in
            guard let bucket = try reader.onlyBucket(), cv.place <= reader.door.end else { return }
            _ = try reader.changes(of: bucket, after: cv.place, in: cv.place..<reader.door.end, foldedFor: nil)
        }
        return nil
    }

    /// The bucket of a path has the form of its name.
    private mutating func takeHTTP(_ text: String) throws -> String? {
        let parts = text.split(separator: " ", maxSplits: 1), target = parts.first?.split(separator: "?", maxSplits: 1)
        guard let target, let path = DataPath(String(target.first ?? "")),
            let query = FormFields((target.count > 1 ? target[1] : "").utf8)
        else { return nil }
        let form = BucketForm.allCases.first { $0.name == path.bucket } ?? .flat, door = try openedDoor(form)
        switch path.target {
        case .index: return try door.read { try $0.listingProblem(ListingRequest(query)) }
        case .changes, .all: return try catchUp(query["cv"] ?? "", form)
        case .entity(let key, let version):
            guard EntityKey.isValid(key), let operation = operation(parts.dropFirst().first, query) else {
                try read(key, at: version ?? 1, door)
                return nil
            }
            let request = ChangeRequest(
                key: key, ident: query["ccid"] ?? "http", client: "http", operation: operation, source: version,
                isNode: false)
            return try perform(request, on: door)
        }
    }

    /// The operation of a request: by its body, or a deletion with `delete` in the query; nil for one that reads.
    private func operation(_ body: Substring?, _ query: FormFields) -> ChangeRequest.Operation? {
        if let body, let json = try? Change.json(body.utf8),
            let members = try? json.normalized().members
        {
            return .set(members, replaces: query.isSet("replace"))
        }
        return query.isSet("delete") ? .delete : nil
    }

    private static let codes: Set<Int?> = [nil, 404, 405, 409, 412, 413, 440, 500]
    /// Of a class that the app has.
    private static let typedCodes = codes.union([400, 417])

    private mutating func change(_ json: JSONValue, on channel: ChannelName) throws -> String? {
        let isNode = channel.number.map { $0.isMultiple(of: 2) } ?? false
        let request: ChangeRequest
        do throws(JSONDiffError) {
            request = try ChangeRequest(json, client: isNode ? "node" : "other", isNode: isNode)
        } catch {
            return error.code == .doesNotApply ? "it does not apply to nothing" : nil
        }
        let door = try openedDoor(form(channel))
        return try perform(request, on: door)
    }

    private func perform(_ request: ChangeRequest, on door: MemoryDoor) throws -> String? {
        let outcome = try door.perform(request), code = outcome.code
        guard (door.form == .typed ? Self.typedCodes : Self.codes).contains(code),
            !request.isNode || ![404, 405, 440].contains(code)
        else {
            return "refused with \(code ?? 0)"
        }
        guard code == nil || !outcome.reason.isEmpty else { return "refused without a reason" }
        if code == nil, try door.perform(request).code != 409 { return "a change is taken twice" }
        return nil
    }

    // MARK: What others have

    func problem() throws -> String? {
        for door in doors.values {
            if let problem = try problem(door) { return problem }
        }
        return nil
    }

    private func problem(_ door: MemoryDoor) throws -> String? {
        try door.read { reader in
            guard let bucket = try reader.onlyBucket() else { return nil }
            for client in [nil, "node"] {
                var ghosts = Ghosts()
                var place = ChangePlace.start
                while true {
                    let told = try reader.changes(
                        of: bucket, after: place, in: .start..<reader.door.end, foldedFor: client)
                    for change in told.changes {
                        if let problem = ghosts.take(change, isFolded: client != nil) { return problem }
                    }
                    place = told.through
                    if told.isComplete { break }
                }
                if let problem = try ghosts.problem(reader, bucket) { return problem }
            }
            return try reader.listingProblem(ListingRequest("1:::2"))
        }
    }
}

/// The entities of a client that is told all changes.
private struct Ghosts {
    private struct Version: Hashable {
        let key: ExactString
        let number: UInt64
    }

    private var bodies: [ExactString: (version: UInt64, body: EntityBody?)] = [:]
    /// Nil for versions that are deletions.
    private var versions: [Version: EntityBody?] = [:]

    mutating func take(_ change: Change, isFolded: Bool) -> String? {
        let key = ExactString(change.key), old = bodies[key]
        guard change.source == (old?.body == nil ? nil : old?.version) || change.isDeletion else {
            return "a change of \(change.key) does not follow: \(change.text)"
        }
        guard isFolded ? change.version > old?.version ?? 0 : change.version == (old?.version ?? 0) + 1 else {
            return "the versions have a gap: \(change.text)"
        }
        var body: EntityBody?
        if !change.isDeletion {
            guard let diff = change.diff.flatMap({ try? ObjectDiff(parsing: $0) }),
                let new = try? diff.applied(to: old?.body ?? [:], bytesMax: .max)
            else { return "what is told does not apply: \(change.text)" }
            body = new
        }
        bodies[key] = (change.version, body)
        versions[Version(key: key, number: change.version)] = .some(body)
        return nil
    }

    func problem(_ reader: BucketReader, _ bucket: Bucket) throws -> String? {
        for (key, ghost) in bodies {
            let body = try reader.graph.entity(key.text, of: bucket)
            guard isSame(body, ghost.body) else { return "\(key.text) is another one at the server" }
        }
        for (version, body) in versions {
            let kept = try reader.entity(version.key.text, of: bucket, at: version.number)
            guard isSame(kept, body) else { return "version \(version.number) of \(version.key.text) has changed" }
        }
        return nil
    }

    private func isSame(_ left: EntityBody?, _ right: EntityBody?) -> Bool {
        guard let left, let right else { return left == nil && right == nil }
        return JSONValue.object(left).isSameJSON(as: .object(right))
    }
}
