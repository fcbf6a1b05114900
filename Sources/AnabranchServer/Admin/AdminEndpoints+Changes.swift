import AnabranchCore
import AnabranchHistory
import Logging

/// Imports of changes that devices have not uploaded, as writes of the server (`Spec/Export.md`, section 6).
extension AdminEndpoints {
    /// Makes the changes of the body again, each at its time. A change that a newer value forbids, or that has no place
    /// any more, is left out and named in the answer.
    func importChanges(_ query: ListingQuery, _ body: [UInt8]) async throws(HTTPError) -> JSONValue {
        let path = try path(of: query)
        try checkImport(to: path)
        let lines = ImportedLines(body, isStrict: true), ident = try query.clientFileIdent()
        if let mistake = lines.firstMistake { throw .badRequest("line \(mistake.number): \(mistake.reason)") }
        let changes: DeviceChanges
        do {
            changes = try DeviceChanges(classes: lines.classes, objects: lines.lines.map(\.content))
            for change in lines.changes {
                try changes.add(change.changeset, named: change.name, version: change.version, at: change.time)
            }
            try changes.end(of: ident)
        } catch let error as HistoryError {
            throw .badRequest(error.reason)
        } catch {
            throw .badRequest("the objects of the device: \(error)")
        }
        var repeatedCount = 0
        do {
            if !lines.classes.isEmpty { try await declare(lines.classes, in: path) }
            for position in changes.changes.indices {
                do {
                    let made = try await server.files.make(position, of: changes, in: path, at: now)
                    if made.isRepetition { repeatedCount += 1 }
                } catch let error as ApplyError where error.code != .unavailable {
                    changes.refuse(position, error)
                }
            }
        } catch {
            throw httpError(error)
        }
        logger.info(
            "changes of a device imported by the operator",
            metadata: ["path": "\(path.abbreviated)", "made": "\(changes.madeCount)", "lost": "\(changes.lossCount)"])
        return [
            "made": .integer(Int64(changes.madeCount)), "repeated": .integer(Int64(repeatedCount)),
            "lost_count": .integer(Int64(changes.lossCount)), "lost": .array(changes.losses.map(\.json)),
        ]
    }
}

extension DeviceChanges.Loss {
    fileprivate var json: JSONValue {
        [
            "place": .string(place), "change": .string(change), "time": .integer(Int64(clamping: time.rawValue)),
            "reason": .string(reason), "kept": kept.map { .string($0) } ?? .null,
            "kept_time": keptTime.map { .integer(Int64(clamping: $0.rawValue)) } ?? .null,
        ]
    }
}
