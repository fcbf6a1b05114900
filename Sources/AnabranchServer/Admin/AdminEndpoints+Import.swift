import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import Logging
import NIOHTTP1
import Synchronization

/// Imports of the lines of an export, as writes of the server (`Spec/Export.md`, section 3).
extension AdminEndpoints {
    /// The longest body with lines of an import, in bytes.
    static let importBytesMax = 48 << 20

    /// The classes of a synced file; none if there is no file.
    func classes(_ query: ListingQuery) async throws(HTTPError) -> JSONValue {
        let path = try path(of: query)
        guard try await catalog({ catalog throws(HistoryError) in try catalog.file(path) != nil }) else {
            return ["classes": []]
        }
        do {
            let classes = try await server.files.run(on: path) { file in
                try file.openedSessions().file.withState { $0.exportedClasses }
            }
            return ["classes": .array(classes.map(\.json))]
        } catch {
            throw blocking.internalError(error)
        }
    }

    /// Writes the lines of the body. A line that makes no sense is refused, and the others are written; with `strict`
    /// in the query, only those before it.
    func importLines(_ query: ListingQuery, _ body: [UInt8]) async throws(HTTPError) -> JSONValue {
        let path = try path(of: query)
        try checkImport(to: path)
        let objects = ImportedLines(body, isStrict: query.isStrict)
        guard objects.changes.isEmpty else { throw .badRequest("changes of devices go to /v1/import/changes") }
        var outcome = objects.outcome, start = 0, end = objects.endOfPiece(from: 0), isNextRefused = false
        do {
            if !objects.classes.isEmpty { try await declare(objects.classes, in: path) }
            while start < objects.lines.count {
                do {
                    outcome.add(try await write(objects.lines[start..<end], to: path, query))
                    start = isNextRefused ? end + 1 : end
                    (end, isNextRefused) = (objects.endOfPiece(from: start), false)
                    if query.isStrict, outcome.refusedCount > 0 { break }
                } catch let refusal as RefusedObject {
                    // The object's write is undone along with the lines before it, which are written again alone.
                    outcome.refuse(refusal.line)
                    (end, isNextRefused) = (refusal.position, true)
                }
            }
            if outcome.refusedCount == 0, let mistake = objects.firstMistake { outcome.refuse(mistake) }
        } catch {
            throw httpError(error)
        }
        logger.info(
            "objects imported by the operator",
            metadata: [
                "path": "\(path.abbreviated)", "written": "\(outcome.written)", "refused": "\(outcome.refusedCount)",
            ])
        return outcome.json
    }

    /// The error that tells the operator of a failed import.
    func httpError(_ error: any Error) -> HTTPError {
        switch error {
        case let error as HTTPError: error
        case let error as ApplyError where error.code != .unavailable:
            HTTPError(status: .conflict, code: "SchemaMismatch", message: "the classes do not fit: \(error)")
        case let error as HistoryError where [.storeFailed, .noRoom, .storeUnusable].contains(error.code):
            HTTPError(status: .serviceUnavailable, code: "StoreUnusable", message: error.reason)
        default: blocking.internalError(error)
        }
    }

    /// Checks that the app and the partition make sense: a typing error must not make a file.
    func checkImport(to path: VirtualPath) throws(HTTPError) {
        let parts = path.bytes.split(separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false)
        let app = String(decoding: parts[0], as: UTF8.self)
        if let apps = admin.settings.apps, !app.isEmpty, !apps.contains(exactly: app) { throw Self.noSuch("app") }
        let mode = server.modes.mode(ofApp: app)
        if parts.count == 1, mode != .flexible {
            throw .badRequest("the app is not one of flexible sync: a partition is named APP/VALUE, as in app/\"a\"")
        }
        if parts.count == 2, mode == .flexible {
            throw .badRequest("the app is one of flexible sync, and has no partitions: its file is '\(app)'")
        }
        if parts.count == 2, !app.isEmpty, (try? JSONValue(parsing: parts[1])) == nil {
            let value = String(decoding: parts[1].prefix(100), as: UTF8.self)
            throw .badRequest(
                "no client asks for \(value), which is not JSON; a text has quotes: '\(app)/\"\(value)\"'")
        }
    }

    func declare(_ classes: [ExportedClass], in path: VirtualPath) async throws {
        _ = try await server.files.write(to: path, idempotencyKey: nil, at: now) { try $0.add(classes) }
    }

    private func write(
        _ lines: ArraySlice<ImportedLines.Object>, to path: VirtualPath, _ query: ListingQuery
    ) async throws -> ImportOutcome {
        guard !lines.isEmpty else { return ImportOutcome() }
        let outcome = Mutex(ImportOutcome())
        let (isStrict, isFilling) = (query.isStrict, query.isFilling)
        // Objects that a device has downloaded from its server count as the oldest possible.
        let time = isFilling ? 0 : min(try query.time() ?? now, now)
        let made = try await server.files.write(to: path, idempotencyKey: nil, at: time) { transaction in
            var written = ImportOutcome()
            for (position, line) in zip(lines.indices, lines) {
                do {
                    if isFilling, let holds = try line.isHeld(by: transaction) {
                        written.unchanged += 1
                        if !holds { written.keep(line.number) }
                        continue
                    }
                    try line.write(to: transaction) ? (written.written += 1) : (written.unchanged += 1)
                } catch let error as LineError {
                    written.refuse(RefusedLine(number: line.number, error: error))
                    if isStrict { break }
                } catch let error as ApplyError where error.code != .unavailable {
                    throw RefusedObject(
                        position: position, line: RefusedLine(number: line.number, error: LineError(error)))
                }
            }
            outcome.withLock { [written] in $0 = written }
        }
        var written = outcome.withLock { $0 }
        written.version = made.version
        return written
    }

    var now: ChangesetTime { server.files.environment.now() }
}
