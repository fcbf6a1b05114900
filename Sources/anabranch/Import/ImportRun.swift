import AnabranchCore
import AnabranchRealmFile
import AnabranchRules
import AnabranchServer
import ArgumentParser
import CommandSupport
import Foundation
import NIOCore

/// The lines of an import on their way to the server, in pieces: once a piece is answered, it is written.
struct ImportRun {
    /// The limit of a line, in bytes: a longer one is refused. The server takes such a line with the classes before it.
    static let lineBytesMax = 40 << 20
    /// The limit of refused lines that are named. Further ones are counted.
    static let refusalsMax = 1_000
    /// The limit of the text about them, in bytes.
    static let refusalBytesMax = 256 << 10
    /// The approximate size of a piece, in bytes: the server makes one write of it.
    private static let pieceBytes = 1 << 20
    private static let pieceLineCount = 1_000
    /// The time that the server may take for a piece: it may have much to do for others.
    private static let timeout = TimeAmount.minutes(10)

    private struct Answer: Decodable {
        struct Refusal: Decodable {
            var line: Int, field: String?, reason: String
        }

        var written: Int, unchanged: Int, refused: [Refusal], refused_count: Int, kept: [Int]?
    }

    private struct Line {
        var path: String, number: Int, text: [UInt8]
    }

    private struct Tally: Encodable {
        var written = 0, unchanged = 0, refused = 0, unknown_fields: [String: Int] = [:]
        var unsupported_fields: [String: Int] = [:], missing_fields: [String: Int] = [:]
        /// For a Realm file only.
        var left_out: Int?, asymmetric_objects: [String: Int]?, kept: Int?, changes: PendingChanges.Tally?
    }

    let file: String
    /// The word for a line: it may be a document of BSON.
    let unit: String
    let isStrict: Bool
    /// Nil for a dry run.
    let client: AdminClient?
    var progress: ProgressLine
    /// The lines with the classes.
    var declarations: [[UInt8]] = []
    var bytesRead = 0
    /// True once a line was refused and nothing may come after it.
    private(set) var isEnded = false
    private var pending: [Line] = []
    private var pendingBytes = 0
    /// The paths of the files that have the classes.
    private var declared: Set<String> = []
    private var tally = Tally()
    /// The Realm file whose objects do not replace what is there, if the lines are of one.
    private var filling: RealmFileLines?
    /// Objects that the server has in another form, and that changes not yet made are about.
    private var undecided: [Line] = []
    /// The time of the values in the lines; nil for the moment of the import.
    var time: ChangesetTime?
    private var namedRefusals = 0
    private var namedBytes = 0
    /// The number of lines that went to each path.
    private var lineCounts: [String: Int] = [:]
    /// The fields of documents that were not brought over.
    var documents = DocumentTally()
    private let start = ContinuousClock.now

    init(file: String, unit: String, isStrict: Bool, client: AdminClient?, progress: ProgressLine) {
        (self.file, self.unit, self.isStrict, self.client, self.progress) = (file, unit, isStrict, client, progress)
    }

    /// The first line that was not sent yet.
    var firstLine: Int? { pending.first?.number }

    var refusedCount: Int { tally.refused }

    var isFull: Bool { pendingBytes >= Self.pieceBytes || pending.count >= Self.pieceLineCount }

    /// - Parameter path: the path of the synced file, as listings show it.
    mutating func add(_ text: [UInt8], _ number: Int, to path: String) {
        pending.append(Line(path: path, number: number, text: text))
        pendingBytes += text.count
        lineCounts[path, default: 0] += 1
    }

    mutating func refuse(_ number: Int, _ error: LineError) {
        tally.refused += 1
        isEnded = isEnded || isStrict
        let text = "\(file), \(unit) \(number): \(error)\n"
        guard namedRefusals < Self.refusalsMax, namedBytes + text.utf8.count <= Self.refusalBytesMax else { return }
        namedRefusals += 1
        namedBytes += text.utf8.count
        progress.end()
        StandardError.write(text)
    }

    /// Has the server write what was added.
    mutating func send(total: Int?) async throws {
        defer {
            (pending, pendingBytes) = ([], 0)
            tell(total)
        }
        guard let client else {
            tally.written += pending.count
            return
        }
        for lines in pieces {
            do {
                guard try await send(lines, client) || !isStrict else { return }
            } catch let error as AdminError where error.status == nil || (error.status ?? 0) >= 500 {
                throw goOn(at: firstLine ?? 1, because: error.description)
            }
        }
    }

    /// Lines of one file each. If nothing may come after a mistake, they stay in their order.
    private var pieces: [[Line]] {
        guard isStrict else {
            return Dictionary(grouping: pending, by: \.path).values.sorted { $0[0].number < $1[0].number }
        }
        return pending.reduce(into: []) { pieces, line in
            if pieces.last?.last?.path == line.path {
                pieces[pieces.count - 1].append(line)
            } else {
                pieces.append([line])
            }
        }
    }

    /// - Returns: true if all lines were taken.
    private mutating func send(_ lines: [Line], _ client: AdminClient) async throws -> Bool {
        let path = lines[0].path
        let classes = declared.contains(path) ? [] : declarations
        let body = (classes + lines.map(\.text)).reduce(into: Data()) { $0 += $1 + [UInt8(ascii: "\n")] }
        let query = [
            ("path", path), ("strict", isStrict ? "true" : nil), ("fill", filling == nil ? nil : "true"),
            ("time", time.map { "\($0.rawValue)" }),
        ]
        let answer = try JSONDecoder().decode(
            Answer.self, from: try await client.post("/v1/import", query, lines: body, timeout: Self.timeout))
        declared.insert(path)
        tally.written += answer.written
        tally.unchanged += answer.unchanged
        for index in (answer.kept ?? []).map({ $0 - 1 - classes.count }) where lines.indices.contains(index) {
            say(kept: lines[index])
        }
        for refusal in answer.refused {
            let index = refusal.line - 1 - classes.count
            let number = lines.indices.contains(index) ? lines[index].number : refusal.line
            refuse(number, LineError(field: refusal.field, refusal.reason))
        }
        tally.refused += answer.refused_count - answer.refused.count
        return answer.refused_count == 0
    }

    // MARK: Messages

    private mutating func tell(_ total: Int?) {
        let count = tally.written + tally.unchanged + tally.refused
        let (bytes, elapsed) = (bytesRead, start.duration(to: .now))
        progress.tell { Self.line(count: count, bytes, of: total, after: elapsed) }
    }

    static func line(count: Int, _ bytes: Int, of total: Int?, after elapsed: Duration) -> String {
        guard let total, total > 0 else { return "\(counted(count, "line")), \(bytes.inBytes)" }
        let share = min(1, Double(bytes) / Double(total)), width = 20, done = Int(share * Double(width))
        let bar = String(repeating: "#", count: done) + String(repeating: "-", count: width - done)
        let seconds = elapsed / .seconds(1)
        let rest = share > 0 && share < 1 ? String(format: ", about %.0f s left", seconds * (1 - share) / share) : ""
        return String(format: "[%@] %3.0f %%, ", bar, share * 100) + counted(count, "line") + rest
    }

    func interrupted(at line: Int) -> AdminError { goOn(at: line, because: "interrupted") }

    /// The error of a run that can go on at a line. Everything before that line is written.
    private func goOn(at line: Int, because reason: String) -> AdminError {
        progress.end()
        guard line > 1 else { return AdminError(description: reason) }
        var arguments = ["anabranch"], rest = CommandLine.arguments.dropFirst()
        while let argument = rest.popFirst() {
            if argument == "--from-line" { _ = rest.popFirst() } else { arguments.append(argument) }
        }
        arguments.removeAll { $0.hasPrefix("--from-line=") }
        let command = (arguments + ["--from-line", "\(line)"]).map(Self.quoted).joined(separator: " ")
        return AdminError(
            description: "\(reason). All \(unit)s of \(file) before \(unit) \(line) are done; go on with\n  \(command)")
    }

    /// The word in quotes if a shell would not take it as it is.
    private static func quoted(_ word: String) -> String {
        let isPlain = word.utf8.allSatisfy { byte in
            UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte || UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte
                || UInt8(ascii: "-")...UInt8(ascii: "9") ~= byte || byte == UInt8(ascii: "_")
        }
        return isPlain && !word.isEmpty ? word : "'" + word.replacing("'", with: "'\\''") + "'"
    }

    /// Begins with the lines of a Realm file. A device's file does not replace what is there: it does not say when its
    /// values were written.
    mutating func begin(_ realm: RealmFileLines) {
        guard realm.pending != nil else { return }
        filling = realm
        tally.kept = 0
    }

    /// Reports an object that stays as it is, unless its changes decide about it.
    private mutating func say(kept line: Line) {
        guard let filling else { return }
        guard tally.changes != nil || !filling.touchedNumbers.contains(line.number) else {
            return undecided.append(line)
        }
        tally.kept = (tally.kept ?? 0) + 1
        guard tally.kept ?? 0 <= Self.refusalsMax else { return }
        progress.end()
        let text = String(excerptOf: line.text, upTo: Self.keptBytesMax)
        say("\(filling.name), \(unit) \(line.number): kept as the server has it, not as \(text)")
    }

    /// The limit of the text about an object, in bytes.
    private static let keptBytesMax = 256

    /// Makes the changes of a Realm file again, and reports what its lines lack.
    mutating func finish(_ realm: RealmFileLines, path: String) async throws {
        progress.end()
        realm.tell(of: file)
        (tally.left_out, tally.asymmetric_objects) = (realm.report.problemCount, realm.asymmetricCounts)
        tally.changes = try await realm.pending?.send(realm.touchedLines, to: path, of: realm.name, client)
        tally.unchanged -= undecided.count
        // In pieces, since an answer names only a limited number of objects that are kept.
        for start in stride(from: 0, to: undecided.count, by: Self.pieceLineCount) {
            pending = Array(undecided[start...].prefix(Self.pieceLineCount))
            try await send(total: nil)
        }
        if let count = tally.changes?.unreadable { tally.left_out = (tally.left_out ?? 0) + count }
    }

    mutating func report(asJSON isJSON: Bool, isDry: Bool, ofPartitions: Bool) throws {
        progress.end()
        sayUnnamed()
        (tally.unknown_fields, tally.unsupported_fields) = (documents.unknown, documents.unsupported)
        tally.missing_fields = documents.missing
        if isJSON {
            show(try JSONEncoder().encode(tally))
        } else if isDry {
            say("\(counted(tally.written, unit)) can be imported, \(tally.refused) cannot")
        } else if filling?.isOnlyPending != true {
            print(
                counted(tally.written, "object") + " written, \(tally.unchanged) unchanged, "
                    + counted(tally.refused, unit) + " refused")
        }
        if let kept = tally.kept, kept > Self.refusalsMax, !isJSON {
            say("\(counted(kept, "object")) in all stay as the server has them, and not as the file has them")
        }
        if let changes = tally.changes, !isJSON {
            isDry ? say("\(counted(changes.made, "change")) can be made again") : print(changes.text)
        }
        if ofPartitions { sayPaths() }
        for text in documents.notes { say("\(file): \(text)") }
        if tally.refused > 0 || tally.left_out ?? 0 > 0 { throw ExitCode.failure }
    }

    /// Says how many refused lines were not named.
    func sayUnnamed() {
        guard tally.refused > namedRefusals else { return }
        say("\(file): \(counted(tally.refused - namedRefusals, "further \(unit)")) refused")
    }

    /// The number of paths that are named with their counts.
    private static let namedPathCount = 10

    private func sayPaths() {
        for (path, count) in lineCounts.sorted(by: { $0.key < $1.key }).prefix(Self.namedPathCount) {
            say("\(path): \(counted(count, unit))")
        }
        let rest = lineCounts.count - Self.namedPathCount
        if rest > 0 { say("and \(counted(rest, "partition")) more") }
    }

    private func say(_ text: String) { StandardError.write(text + "\n") }
}
