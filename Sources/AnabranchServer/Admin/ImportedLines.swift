import AnabranchCore
import AnabranchHistory

/// The lines of a request, without the header.
struct ImportedLines {
    struct Object: Sendable {
        /// The line in the body, from 1.
        let number: Int
        let byteCount: Int
        let content: ExportLine

        /// True if the object exists with the values of the line, false if it has others; nil if it does not exist.
        func isHeld(by transaction: WriteTransaction) throws -> Bool? {
            guard case .object(let className, let key, let fields) = content else { return nil }
            return try transaction.holds(className, key, fields)
        }

        /// - Returns: whether something was written.
        func write(to transaction: WriteTransaction) throws -> Bool {
            guard case .object(let className, let key, let fields) = content else { return false }
            return try transaction.importObject(className, key, fields)
        }
    }

    /// The changes of a device.
    private(set) var changes: [Change] = []
    private(set) var classes: [ExportedClass] = []
    private(set) var lines: [Object] = []
    /// The lines that cannot be read.
    private(set) var outcome = ImportOutcome()
    /// In a strict import, the first line that cannot be read. Only the lines before it are kept.
    private(set) var firstMistake: RefusedLine?

    /// - Parameter isStrict: whether reading ends at the first mistake.
    init(_ body: [UInt8], isStrict: Bool) {
        var rest = body[...], number = 0
        while !rest.isEmpty, firstMistake == nil {
            let line = rest.prefix { $0 != UInt8(ascii: "\n") }
            rest = rest[line.endIndex...].dropFirst()
            number += 1
            do throws(LineError) {
                if let change = try Change(line) {
                    changes.append(change)
                } else if !line.isEmpty {
                    add(try ExportLine(parsing: line), number, byteCount: line.count)
                }
            } catch {
                let mistake = RefusedLine(number: number, error: error)
                if isStrict { firstMistake = mistake } else { outcome.refuse(mistake) }
            }
        }
    }

    private mutating func add(_ content: ExportLine, _ number: Int, byteCount: Int) {
        switch content {
        case .header: break
        case .declaration(let declared): classes.append(declared)
        case .object: lines.append(Object(number: number, byteCount: byteCount, content: content))
        }
    }

    /// The approximate size of the lines that become one write, in bytes: nobody who waits for the file waits for more.
    private static let pieceBytes = 256 << 10

    /// The end of the write that begins with a line.
    func endOfPiece(from start: Int) -> Int {
        var bytes = 0
        return start
            + lines[start...].prefix { line in
                defer { bytes += line.byteCount }
                return bytes < Self.pieceBytes
            }.count
    }
}

extension ImportedLines {
    /// A change that a device has not uploaded.
    struct Change: Sendable {
        /// The unique name of the change.
        let name: String
        let version: UInt64
        let time: ChangesetTime
        let changeset: [UInt8]

        private static let mark = Array(#"{"change":"#.utf8), nameBytesMax = 64

        /// - Returns: nil for another line.
        init?(_ line: some Collection<UInt8>) throws(LineError) {
            guard line.starts(with: Self.mark) else { return nil }
            guard let json = try? JSONValue(parsing: line), let name = json["change"]?.string,
                name.utf8.count <= Self.nameBytesMax, let version = json["version"]?.integer,
                let time = json["time"]?.integer, let text = json["changeset"]?.string,
                let changeset = Hex.decode(text)
            else { throw LineError("a change is written {\"change\":name,\"changeset\",\"time\",\"version\"}") }
            self.name = name
            self.version = UInt64(clamping: version)
            self.time = ChangesetTime(rawValue: UInt64(clamping: time))
            self.changeset = changeset
        }
    }
}

/// A line that was not written, and why.
struct RefusedLine: Sendable {
    /// The line in the body, from 1.
    let number: Int
    let field: String?
    let reason: String

    /// - Parameter error: its texts may have come from the line, and are cut.
    init(number: Int, error: LineError) {
        self.number = number
        field = error.field.map { String(excerptOf: $0.utf8) }
        reason = String(excerptOf: error.reason.utf8, upTo: Self.reasonBytesMax)
    }

    /// The longest reason, in bytes.
    static let reasonBytesMax = 1_024

    var json: JSONValue {
        ["line": .integer(Int64(number)), "reason": .string(reason), "field": field.map { .string($0) } ?? .null]
    }
}

/// An object that was not written, at its place among those of the request.
struct RefusedObject: Error {
    let position: Int
    let line: RefusedLine
}

/// The outcome of importing some lines.
struct ImportOutcome: Sendable {
    /// The most refused lines that are named. Further ones are only counted.
    static let refusedMax = 1_000
    /// The most bytes of their fields and reasons.
    static let refusedBytesMax = 128 << 10

    var written = 0
    var unchanged = 0
    var version: ServerVersion?
    private(set) var refusedCount = 0
    private var refused: [RefusedLine] = []
    private var refusedBytes = 0
    /// The first lines whose objects exist with other values.
    private var kept: [Int] = []
    private var keptCount = 0

    mutating func refuse(_ line: RefusedLine) {
        refusedCount += 1
        let bytes = line.reason.utf8.count + (line.field?.utf8.count ?? 0)
        guard refused.count < Self.refusedMax, refusedBytes + bytes <= Self.refusedBytesMax else { return }
        refused.append(line)
        refusedBytes += bytes
    }

    mutating func keep(_ number: Int) {
        keptCount += 1
        if kept.count < Self.refusedMax { kept.append(number) }
    }

    mutating func add(_ other: ImportOutcome) {
        written += other.written
        unchanged += other.unchanged
        version = other.version ?? version
        keptCount += other.keptCount
        kept = Array((kept + other.kept).prefix(Self.refusedMax))
        for line in other.refused { refuse(line) }
        refusedCount += other.refusedCount - other.refused.count
    }

    var json: JSONValue {
        [
            "written": .integer(Int64(written)), "unchanged": .integer(Int64(unchanged)),
            "version": version.map { JSONValue($0) } ?? .null, "refused_count": .integer(Int64(refusedCount)),
            "kept_count": .integer(Int64(keptCount)), "kept": .array(kept.map { .integer(Int64($0)) }),
            "refused": .array(refused.sorted { $0.number < $1.number }.map(\.json)),
        ]
    }
}
