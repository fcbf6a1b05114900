import AnabranchCore
import AnabranchHistory
import Logging

/// The history that synced files keep (`Spec/Admin.md`, sections 2 and 3).
extension AdminEndpoints {
    // MARK: Looking

    /// One synced file: what it keeps, and for which client file.
    func file(_ query: ListingQuery) async throws(HTTPError) -> JSONValue {
        let path = try await known(try query.path())
        let stateBytes = try await catalog { catalog throws(HistoryError) in try catalog.stateBytes(of: path) }
        let status: HistoryStatus
        do {
            status = try await server.files.run(on: path) { try $0.openedSessions().file.historyStatus() }
        } catch {
            throw blocking.internalError(error)
        }
        let file = CatalogFile(path: path, head: status.head, archivedBytes: status.archivedBytes)
        var members = Self.members(of: file, policy)
        members["sealed_version"] = JSONValue(status.sealedVersion)
        members["generation_version"] = JSONValue(status.generationVersion)
        members["first_generation_bytes"] = JSONValue(policy.firstGenerationBytes)
        members["log_bytes_max"] = policy.logBytesMax == .max ? .null : JSONValue(policy.logBytesMax)
        members["full"] = .bool(policy.isFull(status.head))
        members["state_bytes"] = JSONValue(stateBytes)
        members["pinned_by"] =
            status.lowestPin.map { pin in
                [
                    "client": JSONValue(pin.ident), "user": status.user.map { .string($0) } ?? .null,
                    "version": JSONValue(pin.version), "last_seen": JSONValue(pin.lastSeen),
                    "bytes": JSONValue(status.pinnedBytes),
                ]
            } ?? .null
        return .object(members)
    }

    static func members(of file: CatalogFile, _ policy: HistoryPolicy) -> [String: JSONValue] {
        [
            "path": .string(file.path.description), "version": JSONValue(file.head.version),
            "base_version": JSONValue(file.head.baseVersion), "state_version": JSONValue(file.head.stateVersion),
            "log_bytes": JSONValue(file.head.logBytes), "archived_bytes": JSONValue(file.archivedBytes),
            "clients": JSONValue(file.head.clientFileCount), "may_be_due": .bool(policy.mayBeDue(for: file.head)),
        ]
    }

    var policy: HistoryPolicy { server.files.environment.options.history }

    /// The part of the log that could be trimmed without a client file, and the client file that would pin it then.
    static func freed(
        byExpiring ident: ClientFileID, in file: SyncedFile, _ policy: HistoryPolicy
    ) throws(HistoryError) -> JSONValue {
        let (entries, bytes) = try file.freed(byExpiring: ident, under: policy)
        let pin = try file.lowestPin(afterExpiring: ident)
        return [
            "entries": JSONValue(entries), "bytes": JSONValue(bytes), "keep": .string(policy.keep.rawValue),
            "pinned_by": pin.map { ["client": JSONValue($0.ident), "version": JSONValue($0.version)] } ?? .null,
        ]
    }

    // MARK: Acting

    /// Does the maintenance that is due in a synced file, and answers when it is done.
    func maintainFile(_ body: [String: JSONValue]) async throws(HTTPError) -> JSONValue {
        let path = try await knownFile(of: body)
        let report: MaintenanceReport
        do {
            report = try await server.files.maintain(path)
        } catch {
            throw blocking.internalError(error)
        }
        return [
            "sealed_entries": JSONValue(report.sealedEntries), "sealed_bytes": JSONValue(report.sealedBytes),
            "generations_made": JSONValue(report.generationsMade),
            "generation_bytes": JSONValue(report.generationBytes),
            "generations_dropped": JSONValue(report.generationsDropped),
            "trimmed_entries": JSONValue(report.trimmedEntries), "trimmed_bytes": JSONValue(report.trimmedBytes),
            "archived_entries": JSONValue(report.archivedEntries), "archived_bytes": JSONValue(report.archivedBytes),
            "expired": .array(
                report.expired.map { file in
                    [
                        "client": JSONValue(file.ident), "user": file.user.map { .string($0) } ?? .null,
                        "reason": .string(file.reason.rawValue), "last_seen": JSONValue(file.lastSeen),
                    ]
                }),
        ]
    }

    /// Makes the store free what it need not keep, as it does once a day.
    func maintainStore() async throws(HTTPError) -> JSONValue {
        let store = server.files.environment.store, time = server.unixSeconds()
        let before = store.freeBytes
        try await blocking.run { try store.maintain(at: time) }
        guard let before, let after = store.freeBytes else { return [:] }
        return ["freed_bytes": .integer(Int64(max(0, after - before)))]
    }

    /// Takes the operator's word that the clock is right: client files may expire by it.
    func trustClock() async throws(HTTPError) -> JSONValue {
        let clock = server.files.environment.clock
        let jump = try await blocking.run { clock.trust() }
        logger.audit("trust-clock", "the operator trusts the clock", ["seconds": "\(jump)"])
        return ["jump": .integer(jump)]
    }
}
