import AnabranchCore
import AnabranchRealmFile
import AnabranchTesting
import Foundation

/// Compares the content read from Realm files with the reference's.
struct RealmFileCheck {
    private var equal = 0, different = 0, synced = 0, expected = 0, unexpected = 0
    private let report: (String) -> Void

    /// The key of all vectors that are encrypted.
    static let key = Array("0123456789abcdefghijklmnopqrstuvABCDEFGHIJKLMNOPQRSTUVWXYZ012345".utf8)

    init(report: @escaping (String) -> Void) { self.report = report }

    var hasPassed: Bool { different + unexpected == 0 && equal > 0 }

    var summary: [String] {
        var lines = ["\(equal) equal, \(different) different; \(synced) of them with sync state"]
        if expected + unexpected > 0 { lines.append("damaged: \(expected) as expected, \(unexpected) not") }
        return lines
    }

    /// Checks all files of a folder.
    mutating func run(_ folder: String) throws {
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: folder) else {
            throw InputError(description: "\(folder): cannot be read")
        }
        for name in names.sorted() where name.hasSuffix(".realm.gz") {
            let problem: String?
            do {
                problem = try self.problem(of: "\(folder)/\(name.dropLast(".realm.gz".count))")
            } catch {
                problem = "\(error)"
            }
            if let problem { report("\(name): \(problem)") }
            equal += problem == nil ? 1 : 0
            different += problem == nil ? 0 : 1
        }
        if names.contains("damaged") { try runDamaged("\(folder)/damaged") }
    }

    // MARK: Whole files

    /// - Parameter path: the path without its ending.
    /// - Returns: nil if there is no difference.
    private mutating func problem(of path: String) throws -> String? {
        let isEncrypted = path.split(separator: "/").last?.contains("encrypted") ?? false
        let bytes = RealmFileBytes(try GzipFile.contents(of: path + ".realm.gz"))
        let file = try RealmFile(bytes, key: isEncrypted ? Self.key : nil)
        var text = Data()
        let exported = try file.export { line in
            text += line
            text.append(UInt8(ascii: "\n"))
        }
        guard exported.notSeen.isEmpty else { return "not seen: \(exported.notSeen.joined(separator: ", "))" }
        let lines = try GzipFile.contents(of: path + ".jsonl.gz")
        guard text == lines else { return Self.difference(text, lines) }
        let state = try file.syncState()?.json
        guard let recorded = FileManager.default.contents(atPath: path + ".sync.json") else { return nil }
        synced += 1
        return Self.difference(state ?? .null, try JSONValue(parsing: recorded))
    }

    /// The first line that differs.
    private static func difference(_ found: Data, _ expected: Data) -> String {
        let (found, expected) = (found.split(separator: 10), expected.split(separator: 10))
        let index = zip(found, expected).enumerated().first { $0.element.0 != $0.element.1 }?.offset
        guard let index else { return "\(found.count) lines, not \(expected.count)" }
        let texts = [found, expected].map { String(excerptOf: Array($0[index]), upTo: 300) }
        return "line \(index + 1) is \(texts[0]), not \(texts[1])"
    }

    private static func difference(_ state: JSONValue, _ recorded: JSONValue) -> String? {
        for (name, value) in recorded.members ?? [:] where !["pending", "local_changes"].contains(name.text) {
            guard state[name.text] == value else { return "\(name) is \(state[name.text]?.encoded ?? "missing")" }
        }
        let pending = state["pending"]?.array ?? []
        let sent = pending.map { entry in
            JSONValue.object((entry.members ?? [:]).filter { $0.key != "rebased" })
        }
        guard JSONValue.array(sent) == recorded["pending"] else { return "other changesets wait for upload" }
        let local = pending.compactMap { entry -> JSONValue? in
            guard let version = entry["version"], let text = (entry["rebased"] ?? entry["changeset"])?.string,
                !text.isEmpty
            else { return nil }
            return ["version": version, "changeset": .string(text)]
        }
        return JSONValue.array(local) == recorded["local_changes"] ? nil : "other local changes"
    }

    // MARK: Damaged files

    private mutating func runDamaged(_ folder: String) throws {
        guard let table = FileManager.default.contents(atPath: folder + "/expected.tsv") else {
            throw InputError(description: "\(folder)/expected.tsv: cannot be read")
        }
        for row in String(decoding: table, as: UTF8.self).split(separator: "\n").dropFirst() {
            let cells = row.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
            guard cells.count >= 4 else { throw InputError(description: "\(folder)/expected.tsv: \(row)") }
            let problem = try damagedProblem("\(folder)/\(cells[0])", cells[1], outcome: cells[2], lines: Int(cells[3]))
            if let problem { report("\(cells[0]) \(cells[1]): \(problem)") }
            expected += problem == nil ? 1 : 0
            unexpected += problem == nil ? 0 : 1
        }
    }

    /// - Parameter option: `salvage`, or `limit` and a number.
    private func damagedProblem(_ path: String, _ option: String, outcome: String, lines count: Int?) throws -> String?
    {
        guard let bytes = FileManager.default.contents(atPath: path) else {
            throw InputError(description: "\(path): cannot be read")
        }
        var lines: [[UInt8]] = [], found = "refused"
        do {
            let file = try RealmFile(RealmFileBytes(bytes))
            let limit = option.hasPrefix("limit ") ? Int(option.dropFirst(6)) : nil
            let exported = try file.export(salvages: option == "salvage", outputLimit: limit) { lines.append($0) }
            found = exported.problems.isEmpty ? "read" : "marked"
        } catch let error as RealmFileError where error.code == .outputLimit {
            found = "too long"
        } catch let error as RealmFileError {
            if error.place.offset == nil, error.place.className == nil { return "an error without a place: \(error)" }
        }
        guard found == outcome else { return "\(found), not \(outcome)" }
        guard let count else { return nil }
        let whole = FileManager.default.contents(atPath: path.dropLast(".realm".count) + ".jsonl") ?? Data()
        let expected = whole.split(separator: 10).map { Array($0) }
        guard lines.count == count, lines == Array(expected.prefix(count)),
            outcome == "too long" || count == expected.count
        else { return "\(lines.count) lines, or others than expected" }
        return nil
    }
}
