import AnabranchCore
import AnabranchHistory
import Logging
import NIOHTTP1

/// The doors: what their records take, and what is erased of one that is switched off (`Spec/Doors.md`, section 5).
extension AdminEndpoints {
    /// The records that the server keeps for itself, as an operator sees them.
    private static let ownName = "server"
    private static let ownKinds: [UInt8: String] = [1: "times", 2: "decisions"]
    /// The records that are erased in one commit.
    private static let erasedMax = 1_000

    func doors(_ query: ListingQuery) async throws(HTTPError) -> JSONValue {
        let path = try query.optionalPath().map(server.files.environment.names.file(at:))
        let totals = try await catalog { catalog throws(HistoryError) in try catalog.recordTotals(of: path) }
        let spaces = Set(totals.map(\.space)).union(server.doors.map(\.space)).sorted()
        return [
            "doors": .array(
                spaces.map { space in
                    let door = server.doors.first { $0.space == space }
                    let kinds = space == 0 ? Self.ownKinds : door?.kindNames ?? [:]
                    return [
                        "door": .string(name(of: space)),
                        "connections": door.map { JSONValue.integer(Int64($0.connectionCount)) } ?? .null,
                        "records": .array(
                            totals.filter { $0.space == space }.map { total in
                                [
                                    "kind": .string(kinds[total.kind] ?? "\(total.kind)"),
                                    "files": .integer(Int64(total.fileCount)),
                                    "records": .integer(Int64(total.recordCount)),
                                    "bytes": JSONValue(total.byteCount),
                                ]
                            }),
                    ]
                })
        ]
    }

    /// The name of a door; the number of one that does not run.
    private func name(of space: UInt16) -> String {
        space == 0 ? Self.ownName : server.doors.first { $0.space == space }?.name ?? "\(space)"
    }

    /// Erases the records of a door that has nothing to do with a file any more.
    func dropDoor(_ body: [String: JSONValue]) async throws(HTTPError) -> JSONValue {
        let path = try await knownFile(of: body), word = try body.text("door", bytesMax: 100)
        let totals = try await catalog { catalog throws(HistoryError) in try catalog.recordTotals(of: path) }
        guard let space = totals.map(\.space).first(where: { $0 != 0 && name(of: $0) == word }) else {
            throw Self.noSuch("door that has records of this file")
        }
        if server.doors.contains(where: { $0.space == space && $0.observer(of: path) != nil }) {
            throw HTTPError(
                status: .conflict, code: "DoorInUse",
                message: "the door serves the file: take it out of the configuration first, and restart the server")
        }
        var erased = 0
        do {
            for kind in totals.filter({ $0.space == space }).map(\.kind) {
                let range = RecordRange(space: space, kind: kind)
                var count: Int
                repeat {
                    count = try await erase(Self.erasedMax, of: range, in: path)
                    erased += count
                } while count == Self.erasedMax
            }
        } catch {
            throw blocking.internalError(error)
        }
        logger.audit(
            "drop-door", "the records of a door were erased by the operator",
            ["path": "\(path.abbreviated)", "door": "\(word)", "records": "\(erased)"])
        return ["erased": .integer(Int64(erased))]
    }

    /// Has a door carry out what only it understands.
    func act(_ body: [String: JSONValue]) async throws(HTTPError) -> JSONValue {
        let path = try await knownFile(of: body), word = try body.text("door", bytesMax: 100)
        let action = try body.text("action", bytesMax: 100)
        guard let door = server.doors.first(where: { $0.name == word && $0.observer(of: path) != nil }) else {
            throw Self.noSuch("door that serves this file")
        }
        let answer: DoorAnswer
        do {
            answer = try await door.act(
                action, on: path, body.filter { !["path", "door", "action"].contains($0.key) })
        } catch {
            switch error {
            case .unknown(let thing): throw Self.noSuch(thing)
            case .malformed(let reason): throw .badRequest(reason)
            case .failed(let error): throw blocking.internalError(error)
            }
        }
        if let audit = answer.audit {
            logger.audit("\(word)-\(action)", "\(audit) by the operator", ["path": "\(path.abbreviated)"])
        }
        return answer.answer
    }

    /// Erases some records.
    /// - Returns: their number.
    private func erase(_ countMax: Int, of range: RecordRange, in path: VirtualPath) async throws -> Int {
        let places = try await server.files.run(on: path) { file in
            try file.existingFile()?.readHead { _, records in
                try records.records(in: range, countMax: countMax).map(\.place)
            }
        }
        guard let places, !places.isEmpty else { return 0 }
        let write = HeadWrite(at: ChangesetTime(secondsSince1970: Double(server.unixSeconds()))) { _, records in
            for place in places { records.set(nil, at: place) }
            return []
        }
        _ = try await server.files.write([write], to: path).map { try $0.get() }
        return places.count
    }
}
