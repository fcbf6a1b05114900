import AnabranchCore
import AnabranchHistory
import Foundation
import Logging

/// The objects of asymmetric classes that clients have uploaded (`Spec/FlexibleSync.md`, section 3.6).
extension AdminEndpoints {
    func ingested(_ query: ListingQuery) async throws(HTTPError) -> JSONValue {
        let number = try query.afterNumber(), countMax = query.countMax
        let found = try await onFlexibleFile(try await known(try query.path())) { file throws(HistoryError) in
            try file.ingested(after: number, countMax: countMax)
        }
        var members: [String: JSONValue] = [
            "ingested": .array(
                found.map { object in
                    [
                        "number": JSONValue(object.number),
                        "class": .string(String(decoding: object.className, as: UTF8.self)),
                        "time": JSONValue(object.time), "user": object.user.map { .string($0) } ?? .null,
                        "object": .string(String(decoding: object.json, as: UTF8.self)),
                    ]
                })
        ]
        // A page can end before `limit`, at a limit of bytes.
        if let last = found.last { members["next"] = .string("\(last.number)") }
        return .object(members)
    }

    func freeIngested(_ body: [String: JSONValue]) async throws(HTTPError) -> JSONValue {
        let path = try await knownFile(of: body), number = try body.number("through")
        try await onFlexibleFile(path) { file throws(HistoryError) in try file.freeIngested(through: number) }
        logger.audit(
            "free-ingested", "ingested objects freed by the operator",
            ["path": "\(path.abbreviated)", "through": "\(number)"])
        return [:]
    }

    private func onFlexibleFile<Result: Sendable>(
        _ path: VirtualPath, _ body: @escaping @Sendable (FlexibleFile) throws(HistoryError) -> Result
    ) async throws(HTTPError) -> Result {
        let result: Result?
        do {
            result = try await server.files.run(on: path) { file in
                guard let flexible = try file.openedSessions().flexible else { return nil }
                return try body(flexible)
            }
        } catch {
            throw blocking.internalError(error)
        }
        guard let result else { throw .badRequest("the file belongs to no app of flexible sync") }
        return result
    }
}
