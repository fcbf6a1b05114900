import AnabranchCore
import AnabranchHistory
import AnabranchServer
import AnabranchSimperium

/// Listings, entities and changes since a version.
extension SimperiumConnection {
    // MARK: Listings

    func list(_ request: ListingRequest, on channel: Channel) async throws {
        try countSkips(request.offset)
        channel.position = nil
        let name = channel.bucketName
        let (page, bucket, salt) = try await channel.file.read { reader in
            let bucket = try reader.records.bucket(named: name)
            return (try reader.page(request, of: bucket, named: name), bucket, reader.door.salt)
        }
        try countSkips(page.passedCount)
        channel.bucket = bucket ?? channel.bucket
        try await send(channel.message("i", page.text))
        guard page.isLast else { return }
        (channel.position, channel.salt) = (page.snapshot, salt)
        channel.awaitsCV = channel.library == .apple || channel.library == .browser
        recallCopies(on: channel)
        try await tellNews(on: channel)
    }

    // MARK: Entities

    func tellEntity(_ payload: Substring, on channel: Channel) async throws {
        guard let question = EntityQuestion(payload) else { return }
        var answer = "?"
        let known = channel.bucket, name = channel.bucketName
        if isHidden(question, from: channel) {
            let isEntity = try await channel.file.read { reader in
                try (known ?? reader.records.bucket(named: name))
                    .map { try reader.records.entity(question.key, of: $0) != nil } ?? false
            }
            // Node drops the change for which it asks, although what it has may be older.
            if isEntity { channel.leaveBehind(ExactString(question.key)) }
        } else if let version = question.version {
            let body = try await channel.file.read { reader in
                // Others may have made the bucket since.
                try (known ?? reader.records.bucket(named: name))
                    .flatMap { try reader.entity(question.key, of: $0, at: version) }
            }
            if let body { answer = JSONValue.object(["data": .object(body)]).encoded }
        }
        try await send(channel.message("e", "\(payload)\n\(answer)"))
    }

    /// Node names no version if it is told that what it has was created.
    private func isHidden(_ question: EntityQuestion, from channel: Channel) -> Bool {
        guard channel.library == .node else { return false }
        guard let version = question.version else { return true }
        return channel.file.withClients { $0.hides(question.key, version, from: channel.client, channel.bucketName) }
    }

    // MARK: Changes since a version

    func catchUp(from text: Substring, on channel: Channel) async throws {
        let cv = String(text), name = channel.bucketName
        let (bucket, start, salt) = try await channel.file.read { reader in
            let bucket = try reader.records.bucket(named: name)
            return (bucket, try reader.place(of: cv, of: bucket, named: name), reader.door.salt)
        }
        channel.bucket = bucket ?? channel.bucket
        guard let start else {
            channel.position = nil
            channel.awaitsCV = false
            channel.changedSinceUnknown = []
            return try await send(channel.message("cv", "?"))
        }
        if salt != channel.salt { (channel.position, channel.salt) = (nil, salt) }
        let pushed =
            channel.library == .node
            ? channel.file.withClients { clients in
                clients.unhideAll(from: channel.client, channel.bucketName)
                return clients.pushed(channel.client, channel.bucketName)
            } : nil
        let end = try await tell(after: start, repeatedThrough: pushed, isAnswer: true, on: channel)
        channel.position = max(channel.position ?? .start, end)
        channel.toldEarly = channel.toldEarly.filter { $0 > end }
        channel.awaitsCV = false
        recallCopies(on: channel)
        try await tellNews(on: channel)
    }

    /// Looks after the copies again that an earlier connection of the client has left behind.
    private func recallCopies(on channel: Channel) {
        guard channel.library == .node, let position = channel.position else { return }
        let (file, client, bucket) = (channel.file, channel.client, channel.bucketName)
        let keys = file.withClients { clients in
            clients.recordPushed(client, bucket, through: position, at: file.now)
            return clients.leftBehind(client, bucket)
        }
        for key in keys { channel.leaveBehind(key) }
    }

    // MARK: New changes

    /// Sends a channel the changes that it lacks, and then the errors that waited for those. Changes that are not read
    /// yet are sent once they are: the connection is woken then.
    func tellNews(on channel: Channel) async throws {
        guard channel.isListening, let position = channel.position else { return }
        guard let news = channel.file.news(of: channel.bucketName, after: position, salt: channel.salt),
            news.batches.isEmpty || channel.bucket != nil,
            channel.library != .node || news.batches.allSatisfy(\.isPlain)
        else { return try await tellAll(on: channel) }
        for batch in news.batches {
            guard channel.toldEarly.isEmpty else {
                try await tell(batch.changes.filter { channel.toldEarly.remove($0.place) == nil }, on: channel)
                continue
            }
            try await send(channel.message("c", batch.text))
            record(batch.changes, repeatedThrough: nil, on: channel)
        }
        channel.position = news.through
        try await tellHeldErrors(on: channel)
    }

    private func tell(_ changes: [Change], on channel: Channel) async throws {
        if !changes.isEmpty { try await send(channel.message("c", ChangeBatch.text(changes))) }
        record(changes, repeatedThrough: nil, on: channel)
    }

    /// Tells a channel everything through the head of the file, and then the errors that waited for that.
    func tellAll(on channel: Channel) async throws {
        guard channel.isListening, let position = channel.position else { return }
        channel.position = max(position, try await tell(after: position, isAnswer: false, on: channel))
        try await tellHeldErrors(on: channel)
    }

    func handleNews() async throws {
        let items = inbox.take()
        for item in items {
            guard let channel = channels[item.channel], channel.serial == item.serial else { continue }
            try await handle(item, on: channel)
        }
        for channel in Array(channels.values) { try await tellNews(on: channel) }
        try await askForOperator()
    }

    /// Passes on what the operator has asked since the last time.
    func askForOperator() async throws {
        var told: Set<ObjectIdentifier> = []
        for channel in Array(channels.values) {
            let asked = channel.file.questions.asked
            if asked.indexes != channel.asked.indexes {
                channel.file.questions.add(channel)
                try await send("\(channel.name.prefix)index")
            }
            if asked.logLevel != channel.asked.logLevel, told.insert(ObjectIdentifier(channel.file)).inserted {
                try await send("log:\(asked.logLevel)")
            }
            channel.asked = asked
        }
    }

    /// Sends the changes after a point.
    /// - Parameters:
    ///   - pushed: the point through which changes were sent before.
    ///   - isAnswer: true to send a message even without changes, and to send early ones again.
    /// - Returns: the point through which everything is sent.
    private func tell(
        after start: ChangePlace, repeatedThrough pushed: ChangePlace? = nil, isAnswer: Bool, on channel: Channel
    ) async throws -> ChangePlace {
        let isNode = channel.library == .node, client = isNode ? channel.client : nil, name = channel.bucketName
        var end: ChangePlace?, place = start, isFirst = true
        while true {
            let after = place, limit = end
            let known = channel.bucket, salt = channel.salt
            let (told, last, bucket) = try await channel.file.read { reader in
                guard reader.door.salt == salt else { throw End.closed(1013, "another history") }
                let last = limit ?? max(reader.door.end, start)
                guard let bucket = try known ?? reader.records.bucket(named: name) else {
                    return (ToldChanges(through: last, isComplete: true), last, known)
                }
                guard try reader.keepsChanges(of: bucket, after: after) else {
                    throw End.closed(1013, "too far behind")
                }
                let told = try reader.changes(of: bucket, after: after, in: start..<last, foldedFor: client)
                return (told, last, bucket)
            }
            channel.bucket = bucket
            end = last
            place = told.through
            let changes = isAnswer ? told.changes : told.changes.filter { channel.toldEarly.remove($0.place) == nil }
            if !changes.isEmpty || isAnswer && isFirst && told.isComplete {
                try await send(channel.message("c", ChangeBatch.text(changes)))
                isFirst = false
            }
            record(changes, repeatedThrough: pushed, on: channel)
            guard !told.isComplete else { return last }
        }
    }

    /// Records that changes were sent to the client.
    private func record(_ changes: [Change], repeatedThrough pushed: ChangePlace?, on channel: Channel) {
        if !channel.unanswered.isEmpty {
            for request in changes.flatMap(\.requests) { channel.unanswered[ExactString(request)] = nil }
        }
        if channel.library == .browser { channel.markTold(changes) }
        guard channel.library == .node, let last = changes.last?.place else { return }
        // What it makes of its copy is not known if it has missed its own change, or others' come while it waits for
        // that.
        let unanswered = Set(channel.unanswered.values)
        for change in changes {
            let key = ExactString(change.key), isOwn = change.client == channel.client
            if isOwn ? pushed != nil && !change.isDeletion : unanswered.contains(key) { channel.leaveBehind(key) }
        }
        let file = channel.file, now = file.now, (client, bucket) = (channel.client, channel.bucketName)
        file.withClients { clients in
            for change in changes {
                if let pushed, change.place <= pushed, let source = change.source {
                    clients.hide(change.key, source, from: client, bucket, at: now)
                }
                if change.isDeletion, change.client != client {
                    clients.oweDeletion(change.key, client, bucket, at: now)
                }
            }
            clients.recordPushed(client, bucket, through: last, at: now)
        }
    }
}
