package import AnabranchCore
package import AnabranchHistory
package import AnabranchServer

/// The operator's questions to clients (`Spec/Simperium.md`, section 15).
extension SimperiumWire {
    package func act(
        _ action: String, on path: VirtualPath, _ arguments: [String: JSONValue]
    ) async throws(DoorActionError) -> DoorAnswer {
        switch action {
        case "index":
            let seconds = arguments["seconds"].map { $0.integer ?? 0 } ?? 5
            guard (1...20).contains(seconds) else { throw .malformed("seconds are 1 to 20") }
            guard let file = openFile(path) else { return DoorAnswer(["channels": []]) }
            do {
                let channels = try await file.compareIndexes(for: .seconds(seconds))
                return DoorAnswer(["channels": .array(channels)], audit: "clients were asked for their indexes")
            } catch {
                throw .failed(error)
            }
        case "log":
            guard let file = openFile(path) else { throw .unknown("client of this file that is connected") }
            guard let level = arguments["level"] else {
                return DoorAnswer(["lines": .array(file.questions.lines.map { .string($0) })])
            }
            guard let level = level.integer, (0...2).contains(level) else { throw .malformed("a level is 0, 1 or 2") }
            file.questions.setLogLevel(Int(level))
            file.wakeAll()
            return DoorAnswer(["level": .integer(level)], audit: "the level of clients' logs was set to \(level)")
        default: throw .unknown("action of this door")
        }
    }
}

extension SyncedBuckets {
    /// How many entities of a channel are named.
    private static let namedMax = 100

    /// Asks the clients for their indexes, and compares them with what is there.
    /// - Returns: an object for each channel.
    fileprivate func compareIndexes(for duration: Duration) async throws -> [JSONValue] {
        let askings = await questions.askForIndexes(channelCount, for: duration, wakeAll)
        questions.forgetIndexes()
        var channels: [JSONValue] = []
        for asking in askings.sorted(by: { ($0.bucket, $0.client) < ($1.bucket, $1.client) }) {
            var members: [JSONName: JSONValue] = [
                "bucket": .string(asking.bucket), "clientid": .string(asking.client),
                "library": .string("\(asking.library)"),
            ]
            if let text = asking.index, let index = ClientIndex(text) {
                members["entities"] = .integer(Int64(index.versions.count))
                members["pending"] = .integer(Int64(index.pendingCount))
                members.merge(try await compare(index, with: asking.bucket)) { $1 }
            }
            channels.append(.object(members))
        }
        return channels
    }

    /// The entities of other versions, those that the client lacks, and those that only the client has.
    private func compare(_ index: ClientIndex, with name: String) async throws -> [JSONName: JSONValue] {
        let namedMax = Self.namedMax
        return try await read { reader in
            var newest: [ExactString: UInt64] = [:]
            if let bucket = try reader.records.bucket(named: name) {
                for row in try reader.records.recent(of: bucket, before: reader.door.end, countMax: .max >> 1)
                where row.supersededAt == nil {
                    newest[ExactString(row.key)] = row.version
                }
            }
            func named(_ keys: some Sequence<ExactString>) -> JSONValue {
                let items = keys.sorted { $0.text < $1.text }.prefix(namedMax).map { key -> JSONValue in
                    var item: [JSONName: JSONValue] = ["id": .string(key.text)]
                    if let version = index.versions[key] { item["v"] = .integer(Int64(clamping: version)) }
                    if let version = newest[key] { item["newest"] = .integer(Int64(clamping: version)) }
                    return .object(item)
                }
                return .array(items)
            }
            let others = index.versions.filter { (newest[$0.key] ?? $0.value) != $0.value }
            let gone = index.versions.keys.filter { newest[$0] == nil }
            let missing = newest.keys.filter { index.versions[$0] == nil }
            return [
                "others": named(others.keys), "other_count": .integer(Int64(others.count)),
                "gone": named(gone), "gone_count": .integer(Int64(gone.count)),
                "missing": named(missing), "missing_count": .integer(Int64(missing.count)),
            ]
        }
    }
}
