import AnabranchCore
import AnabranchHistory
import Logging
import NIOHTTP1
import Synchronization

/// Lines of an export become a write of the server (`Spec/Export.md`, section 3).
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

    /// Writes the lines of the body. A line that makes no sense is refused, and the others are written; unless the
    /// query has `strict`: then those before it are.
    func importLines(_ query: ListingQuery, _ body: [UInt8]) async throws(HTTPError) -> JSONValue {
        let path = try path(of: query)
        try checkImport(to: path)
        let objects = ImportedObjects(body)
        var outcome = ImportOutcome(), start = 0, end = objects.lines.count, isNextRefused = false
        do {
            if !objects.classes.isEmpty { try await declare(objects.classes, in: path) }
            while start < objects.lines.count {
                do {
                    outcome.add(try await write(objects.lines[start..<end], to: path, isStrict: query.isStrict))
                    start = isNextRefused ? end + 1 : end
                    (end, isNextRefused) = (objects.lines.count, false)
                    if query.isStrict, !outcome.refused.isEmpty { break }
                } catch let refusal as RefusedLine {
                    // What was written of it is undone, and the lines before it with it: they are written again alone.
                    outcome.refused.append(refusal)
                    (end, isNextRefused) = (refusal.position, true)
                }
            }
        } catch let error as ApplyError where error.code != .unavailable {
            throw HTTPError(status: .conflict, code: "SchemaMismatch", message: "the classes do not fit: \(error)")
        } catch let error as HistoryError where [.storeFailed, .storeUnusable].contains(error.code) {
            throw HTTPError(status: .serviceUnavailable, code: "StoreUnusable", message: error.reason)
        } catch {
            throw blocking.internalError(error)
        }
        logger.info(
            "objects imported by the operator",
            metadata: [
                "path": "\(path.abbreviated)", "written": "\(outcome.written)", "refused": "\(outcome.refused.count)",
            ])
        return outcome.json
    }

    /// A typing error shall not make a file.
    private func checkImport(to path: VirtualPath) throws(HTTPError) {
        let parts = path.bytes.split(separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false)
        let app = String(decoding: parts[0], as: UTF8.self)
        if let apps = admin.settings.apps, !app.isEmpty, !apps.contains(app) { throw Self.noSuch("app") }
        let isFlexible = server.files.environment.options.isFlexible(VirtualPath(app))
        if parts.count == 1, !isFlexible {
            throw .badRequest("the app is not one of flexible sync: a partition is named APP/VALUE, as in app/\"a\"")
        }
        if parts.count == 2, isFlexible {
            throw .badRequest("the app is one of flexible sync, and has no partitions: its file is '\(app)'")
        }
        if parts.count == 2, !app.isEmpty, (try? JSONValue(parsing: parts[1])) == nil {
            let value = String(decoding: parts[1].prefix(100), as: UTF8.self)
            throw .badRequest("no client asks for \(value), which is no JSON; a text has quotes: '\(app)/\"\(value)\"'")
        }
    }

    private func declare(_ classes: [ExportedClass], in path: VirtualPath) async throws {
        _ = try await server.files.write(to: path, idempotencyKey: nil, at: now) { try $0.add(classes) }
    }

    private func write(
        _ lines: ArraySlice<ImportedObjects.Line>, to path: VirtualPath, isStrict: Bool
    ) async throws -> ImportOutcome {
        guard !lines.isEmpty else { return ImportOutcome() }
        let outcome = Mutex(ImportOutcome())
        let made = try await server.files.write(to: path, idempotencyKey: nil, at: now) { transaction in
            var written = ImportOutcome()
            for (position, line) in zip(lines.indices, lines) {
                do {
                    try line.write(to: transaction) ? (written.written += 1) : (written.unchanged += 1)
                } catch let error as LineError {
                    written.refused.append(RefusedLine(position: position, number: line.number, error: error))
                    if isStrict { break }
                } catch let error as ApplyError where error.code != .unavailable {
                    throw RefusedLine(position: position, number: line.number, error: LineError(error))
                }
            }
            outcome.withLock { [written] in $0 = written }
        }
        var written = outcome.withLock { $0 }
        written.version = made.version
        return written
    }

    private var now: ChangesetTime { ChangesetTime(secondsSince1970: Double(server.unixSeconds())) }
}

/// The lines of a request, without the header.
private struct ImportedObjects {
    struct Line: Sendable {
        /// In the body, from 1.
        let number: Int
        let content: Result<ExportLine, LineError>

        /// - Returns: whether something was written.
        func write(to transaction: WriteTransaction) throws -> Bool {
            guard case .object(let className, let key, let fields) = try content.get() else { return false }
            return try transaction.importObject(className, key, fields)
        }
    }

    var classes: [ExportedClass] = []
    var lines: [Line] = []

    init(_ body: [UInt8]) {
        let lines = body.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() where !line.isEmpty {
            let content = Result { () throws(LineError) in try ExportLine(parsing: line) }
            switch content {
            case .success(.header): break
            case .success(.declaration(let declared)): classes.append(declared)
            case .success(.object), .failure: self.lines.append(Line(number: index + 1, content: content))
            }
        }
    }
}

/// A line that was not written, and why.
private struct RefusedLine: Error {
    /// Among those with objects.
    let position: Int
    let number: Int
    let error: LineError
}

/// What became of some lines.
private struct ImportOutcome: Sendable {
    var written = 0
    var unchanged = 0
    var refused: [RefusedLine] = []
    var version: ServerVersion?

    mutating func add(_ other: ImportOutcome) {
        written += other.written
        unchanged += other.unchanged
        refused += other.refused
        version = other.version ?? version
    }

    var json: JSONValue {
        [
            "written": .integer(Int64(written)), "unchanged": .integer(Int64(unchanged)),
            "version": version.map { JSONValue($0) } ?? .null,
            "refused": .array(
                refused.sorted { $0.number < $1.number }.map { refusal in
                    [
                        "line": .integer(Int64(refusal.number)), "reason": .string(refusal.error.reason),
                        "field": refusal.error.field.map { .string($0) } ?? .null,
                    ]
                }),
        ]
    }
}
