import AnabranchCore
import AnabranchHistory
import AnabranchServer
import AnabranchSimperium

/// Changes that clients ask for, and their errors.
extension SimperiumConnection {
    /// Takes a message of one change, or of several.
    func change(_ payload: Substring, on channel: Channel) async throws {
        guard let permit = await channel.file.admission.enter(payload.utf8.count) else {
            throw End.closed(1013, "too many long changes wait")
        }
        guard let json = try? Change.json(payload.utf8) else {
            return try await refuse(payload, 400, client: channel.client, on: channel.name)
        }
        for json in json.array ?? [json] {
            try countChange()
            await inbox.wait(while: wire.limits.changesUnderWayMax)
            try await change(json, permit, on: channel)
        }
    }

    /// Refuses the changes of a message unread.
    func refuse(_ payload: Substring, _ code: Int, client: String, on name: ChannelName) async throws {
        for change in UnreadChanges(payload) {
            try countChange()
            let error = Channel.error(code, change.key, change.ident, client: client)
            try await send("\(name.prefix)c:[\(error)]")
        }
    }

    private func change(_ json: JSONValue, _ permit: ChangeAdmission.Permit, on channel: Channel) async throws {
        let operation = json["o"]?.string
        var request: ChangeRequest?
        if operation != "EMPTY", operation != "DROP" {
            do throws(JSONDiffError) {
                request = try ChangeRequest(json, client: channel.client, isNode: channel.library == .node)
            } catch {
                return try await tellError(error.code.rawValue, json, on: channel)
            }
        }
        guard operation != "DROP", wire.permission(for: channel.principal, on: channel.file.path) >= .write else {
            return try await tellError(401, json, on: channel)
        }
        guard var request else { return try await emptyBucket(json, on: channel) }
        submit(&request, permit, on: channel)
    }

    /// - Parameter permit: that of the message in which the client asks for it.
    private func submit(_ request: inout ChangeRequest, _ permit: ChangeAdmission.Permit?, on channel: Channel) {
        let key = ExactString(request.key)
        if channel.library == .node {
            if case .delete = request.operation {
                request.owesDeletion = channel.file.withClients { clients in
                    clients.owesDeletion(request.key, channel.client, channel.bucketName, at: channel.file.now)
                }
            } else if let time = channel.putRight[key], channel.file.now <= time + Self.crossingSeconds {
                channel.leaveBehind(key)
            }
            if channel.leftBehind[key] != nil { channel.leftBehind[key] = .now }
            if let count = channel.changedSinceUnknown?.count, count < Channel.notesMax,
                channel.changedSinceUnknown?.insert(key).inserted == true
            {
                channel.leaveBehind(key)
            }
        }
        if channel.unanswered.count < wire.limits.changesPerMinuteMax {
            channel.unanswered[ExactString(request.ident)] = key
        }
        inbox.begin()
        let inbox = inbox, (name, serial) = (channel.name, channel.serial)
        let decided = Inbox.Decided(request), isNode = channel.library == .node
        let file = channel.file, (client, bucket) = (channel.client, channel.bucketName)
        file.submit(request, to: bucket, channel.settings) { [permit] result in
            var item = Inbox.Item(channel: name, serial: serial, request: decided, result: result)
            // Also if the connection has gone by now: on the next one, the client goes on from there.
            if isNode, case .success(let (outcome, _)) = result {
                item.mayBeLateAnswer = file.withClients {
                    $0.record(outcome, of: decided, by: client, bucket, at: file.now)
                }
            }
            inbox.add(item)
            withExtendedLifetime(permit) {}
        }
    }

    /// Deletes all entities of the bucket, one by one, also those that the client has made just before; once, however
    /// often the client asks for it.
    private func emptyBucket(_ json: JSONValue, on channel: Channel) async throws {
        guard let ident = json["ccid"]?.string, ChangeRequest.isIdent(ident) else {
            return try await tellError(400, json, on: channel)
        }
        await inbox.wait(while: 1)
        let name = channel.bucketName, keys = try await keys(toBeDeletedBy: ident, on: channel)
        try countDeletions(keys.count)
        guard !keys.isEmpty else {
            let nothing = ChangeRequest(
                key: EntityKey.ofBucket, ident: ident, client: channel.client, operation: .nothing, isNode: false)
            _ = try await channel.file.perform([nothing], on: name, channel.settings)
            return try await tellError(412, json, on: channel)
        }
        for (index, key) in keys.enumerated() {
            await inbox.wait(while: wire.limits.changesUnderWayMax)
            var request = ChangeRequest(
                key: key, ident: ident, client: channel.client, operation: .delete,
                isNode: channel.library == .node)
            request.endsEmptying = index == keys.count - 1
            submit(&request, nil, on: channel)
        }
    }

    /// The entities of the bucket as it is now, read in steps between which others have their turn; none if the client
    /// has emptied it by the same request before.
    private func keys(toBeDeletedBy ident: String, on channel: Channel) async throws -> [String] {
        let name = channel.bucketName
        let (bucket, snapshot, salt) = try await channel.file.read { reader -> (Bucket?, ChangePlace, UInt64) in
            let bucket = try reader.records.bucket(named: name)
            let isRepeated = try bucket.map { try reader.records.request(ident, EntityKey.ofBucket, of: $0) != nil }
            return (isRepeated == true ? nil : bucket, reader.door.end, reader.door.salt)
        }
        guard let bucket else { return [] }
        var keys: [String] = [], passedCount = 0, place = snapshot
        while true {
            let before = place
            let rows = try await channel.file.read { reader in
                guard reader.door.salt == salt else { throw End.closed(1013, "another history") }
                return try reader.records.recent(of: bucket, before: before, countMax: Self.emptiedStep)
            }
            let there = rows.filter { $0.supersededAt.map { $0 > snapshot } ?? true }
            keys += there.map(\.key)
            passedCount += rows.count - there.count
            guard rows.count == Self.emptiedStep, let last = rows.last else { break }
            place = last.place
        }
        try countSkips(passedCount)
        return keys
    }

    /// How many entities of a bucket that is emptied are read in one turn.
    private static let emptiedStep = 1_000

    // MARK: Outcomes

    /// A change has been decided on.
    func handle(_ item: Inbox.Item, on channel: Channel) async throws {
        let (outcome, version) = try item.result.get()
        let request = item.request, key = ExactString(request.key)
        if channel.library == .node {
            if outcome.leavesCopyBehind { channel.leaveBehind(key) }
            // Its application may have what it has made since.
            if item.mayBeLateAnswer { channel.leaveBehind(key) }
        }
        if let code = outcome.code {
            try await tell(
                Channel.HeldError(
                    key: request.key, request: request.ident, code: code, version: version,
                    duplicateOf: outcome.duplicateOf), on: channel)
        } else if channel.library == .apple, !channel.isListening {
            try await tellEarly(request, in: ChangePlace(version: version, ordinal: 0), on: channel)
        }
    }

    /// Tells an own change before its turn.
    private func tellEarly(_ request: Inbox.Decided, in first: ChangePlace, on channel: Channel) async throws {
        let name = channel.bucketName
        let change = try await channel.file.read { reader -> Change? in
            guard let bucket = try reader.records.bucket(named: name),
                case .accepted(let place)? = try reader.records.request(request.ident, request.key, of: bucket)
            else { return nil }
            return try reader.records.change(at: place, of: bucket)
        }
        guard let change, !channel.toldEarly.contains(change.place) else { return }
        channel.markEarly(change.place)
        channel.unanswered[ExactString(request.ident)] = nil
        try await send(channel.message("c", "[\(change.text)]"))
    }

    // MARK: Errors

    /// Tells of a change that cannot be read. It waits its turn as others do.
    private func tellError(_ code: Int, _ json: JSONValue, on channel: Channel) async throws {
        try await tell(
            Channel.HeldError(
                key: json["id"]?.string ?? "", request: json["ccid"]?.string ?? "", code: code, version: 0,
                duplicateOf: nil), on: channel)
    }

    private func tell(_ error: Channel.HeldError, on channel: Channel) async throws {
        guard channel.library != .apple || channel.isListening else {
            // It asks for nothing else before all its changes are answered.
            if let place = error.duplicateOf { try await tellDuplicate(at: place, on: channel) }
            return try await send(error, on: channel)
        }
        channel.heldErrors.append(error)
        guard channel.heldErrors.count <= wire.limits.changesPerMinuteMax else {
            throw End.closed(1013, "too many errors wait")
        }
        try await tellNews(on: channel)
    }

    /// Sends a change that was accepted before to a client that has not got it yet.
    private func tellDuplicate(at place: ChangePlace, on channel: Channel) async throws {
        guard channel.position.map({ $0 < place }) ?? true, !channel.toldEarly.contains(place) else { return }
        let name = channel.bucketName
        let change = try await channel.file.read { reader -> Change? in
            try reader.records.bucket(named: name).flatMap { try reader.records.change(at: place, of: $0) }
        }
        guard let change else { return }
        channel.markEarly(place)
        try await send(channel.message("c", "[\(change.text)]"))
    }

    /// Tells the errors whose turn has come.
    func tellHeldErrors(on channel: Channel) async throws {
        guard let position = channel.position else { return }
        let due = channel.heldErrors.prefix { error in
            error.version <= position.version && error.duplicateOf.map { $0 <= position } ?? true
        }
        channel.heldErrors.removeFirst(due.count)
        for error in due { try await send(error, on: channel) }
    }

    private func send(_ error: Channel.HeldError, on channel: Channel) async throws {
        channel.unanswered[ExactString(error.request)] = nil
        var code = error.code
        if let place = error.duplicateOf, channel.waits(for: place, of: error.key) {
            // It passes over 409, and would send the change again for ever.
            code = try await isThere(error.key, on: channel) ? 412 : 404
        }
        let text = Channel.error(code, error.key, error.request, client: channel.client)
        try await send(channel.message("c", "[\(text)]"))
    }

    private func isThere(_ key: String, on channel: Channel) async throws -> Bool {
        let name = channel.bucketName
        return try await channel.file.read { reader in
            let row = try reader.records.bucket(named: name).flatMap { try reader.records.entity(key, of: $0) }
            return row?.isDeleted == false
        }
    }

    // MARK: Healing

    /// How long an edit may have been under way that crosses with what puts a copy right.
    private static let crossingSeconds: UInt64 = 10

    /// Makes the client's working copies what it knows of the server, where they may differ and nothing is under way.
    func heal(_ channel: Channel, at now: ContinuousClock.Instant) async throws {
        let due = channel.leftBehind.filter { now >= $0.value + wire.limits.healDelay }.keys.sorted()
        guard !due.isEmpty else { return }
        let file = channel.file, time = file.now
        channel.putRight = channel.putRight.filter { time <= $0.value + Self.crossingSeconds }
        try await tellAll(on: channel)
        let unanswered = Set(channel.unanswered.values)
        for key in due {
            guard !unanswered.contains(key), let position = channel.position, let bucket = channel.bucket else {
                channel.leftBehind[key] = now
                continue
            }
            let (row, door) = try await file.read { reader in
                (try reader.records.entity(key.text, of: bucket), reader.door)
            }
            // Changes have come in between, which are sent first.
            guard door.end == position else { break }
            (channel.leftBehind[key], channel.putRight[key]) = (nil, time)
            file.withClients { clients in
                clients.putRight(key, channel.client, bucket.name)
                if row?.isDeleted == true { clients.oweDeletion(key.text, channel.client, bucket.name, at: time) }
            }
            guard let row else { continue }
            let text = Change.text(
                client: Change.otherClient, key: key.text, diff: row.isDeleted ? nil : ObjectDiff(), to: nil,
                from: row.isDeleted ? nil : row.version, to: row.version,
                cv: door.cv(position, of: bucket.name), requests: [])
            try await send(channel.message("c", "[\(text)]"))
        }
    }
}
