import AnabranchCore
import AnabranchSimperium
import Synchronization

@testable import AnabranchSimperiumWire

/// Messages of a client, a line each. All that read them do; changes are carried out. At the end, whoever was told the
/// changes has what the server has, also of every version.
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

/// Two lines: a request for a page, and a version since which listed entities have changed. A mark that was not given
/// out gives the first page of a listing; any other the rest of one.
func fuzzIndexMark(_ bytes: [UInt8]) -> String? {
    let lines = bytes.split(separator: 10, maxSplits: 1).map { String(decoding: $0, as: UTF8.self) }
    var request = ListingRequest((lines.first ?? "")[...])
    request.since = lines.count > 1 ? lines[1] : ""
    do {
        return try ListingWorld.door.withLock { door in
            guard let door else { return "there is no file" }
            return try door.read { reader in
                if ListingMark(request.mark) == nil {
                    var first = request
                    first.mark = ""
                    let bucket = try reader.onlyBucket()
                    guard try reader.page(request, of: bucket).text == reader.page(first, of: bucket).text else {
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

    /// The file whose bucket is flat for the first two channels, and typed for others.
    private mutating func openedDoor(_ channel: ChannelName) throws -> MemoryDoor {
        let form = (channel.number ?? 0) < 2 ? BucketForm.flat : .typed
        let opened = try doors[form] ?? MemoryDoor(form)
        doors[form] = opened
        return opened
    }

    mutating func receive(_ text: String) throws -> String? {
        _ = SocketPath(text)
        _ = DataPath(text)
        _ = FormFields(text.utf8)
        _ = SockJSFrame.messages(in: text)
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
            return try openedDoor(channel).read { try $0.listingProblem(request) }
        case "e":
            let parts = payload.split(separator: ".")
            guard parts.count == 2, let version = UInt64(parts[1]) else { return nil }
            try openedDoor(channel).read { reader in
                if let bucket = try reader.onlyBucket() {
                    _ = try reader.entity(String(parts[0]), of: bucket, at: version)
                }
            }
        case "cv":
            guard let cv = ChangeVersion(payload) else { return nil }
            guard ChangeVersion(cv.text) == cv else { return "written, it is another version" }
            try openedDoor(channel).read { reader in
                guard let bucket = try reader.onlyBucket(), cv.place <= reader.door.end else { return }
                _ = try reader.changes(of: bucket, after: cv.place, in: cv.place..<reader.door.end, foldedFor: nil)
            }
        case "c":
            guard let json = try? JSONValue(parsing: payload.utf8, depthMax: Change.jsonDepth) else { return nil }
            for json in (json.array ?? [json]).prefix(8) {
                if let problem = try change(json, on: channel) { return problem }
            }
        default: break
        }
        return nil
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
        let door = try openedDoor(channel), code = try door.perform(request).code
        guard (door.form == .typed ? Self.typedCodes : Self.codes).contains(code),
            !isNode || ![404, 405, 440].contains(code)
        else {
            return "refused with \(code ?? 0)"
        }
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

/// What a client has that is told all changes.
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
