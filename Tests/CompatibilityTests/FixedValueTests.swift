import AnabranchCore
import AnabranchHistory
import AnabranchTesting
import Foundation
import Testing

/// Values that are stored, or compared between machines, are the same in every version of the program. Each test has a
/// text in `Tests/Fixtures/values` with what it makes.
@Suite struct FixedValueTests {
    // MARK: Conflict keys

    /// The hashes under which log entries are found, and those that uploads look for.
    @Test func conflictKeysAreFixed() throws {
        var lines: [String] = []
        for name in ["edits", "erasures", "nested", "erased-schema", "set"] {
            lines += try Self.conflictKeys(of: Self.changeset(name), named: name)
        }
        for (name, key) in Self.keys {
            var graph = ObjectGraph()
            _ = try graph.write(as: 2) { try Self.addClass(for: key, $0) }
            let written = try graph.write(as: 2) { tx in
                if case .globalKey = key { try tx.create("Class") } else { try tx.create("Class", key: key) }
            }
            lines += try Self.conflictKeys(of: written.changeset, named: "object with \(name)")
        }
        lines.append("erasure of a class: \(Self.hexadecimal(ConflictKeys.erasure(ofClass: Array("Class".utf8))))")
        try Fixture.expect(lines, equals: "values/conflict-keys.txt")
    }

    private static let keys: [(name: String, key: PrimaryKey)] = [
        ("null", .null), ("0", 0), ("-1", -1), ("the empty text", ""), ("a text", "a key of more than eight bytes"),
        ("an ObjectId", StoredValues.objectID(7)), ("a UUID", StoredValues.uuid(7)),
        ("a GlobalKey", .globalKey(GlobalKey(high: 2, low: 0))),
    ]

    private static func addClass(for key: PrimaryKey, _ tx: WriteTransaction) throws {
        if case .globalKey = key { return try tx.addClass("Class") }
        try tx.addClass("Class", key: "_id", key == .null ? .int : key.type, isNullable: key == .null)
    }

    private static func conflictKeys(of changeset: [UInt8], named name: String) throws -> [String] {
        var arena = ChangesetArena()
        let index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 1, ident: 2))
        let touches = arena.conflictKeys(of: index)
        let everything = touches.readsEverything ? " and everything" : ""
        return [
            "\(name), writes: \(touches.writes.map(hexadecimal).joined(separator: " "))",
            "\(name), reads: \(touches.reads.map(hexadecimal).joined(separator: " "))\(everything)",
        ]
    }

    // MARK: Checksums

    /// The chain of a log, and the rows beside it.
    @Test func checksumsAreFixed() throws {
        let start = Checksum(startOf: VirtualPath("demo/\"values\""))
        var lines = ["start: \(Self.hexadecimal(start.bytes))"]
        var chain = start
        for (number, name) in ["schema", "edits", "erasures", "empty"].enumerated() {
            let version = UInt64(number + 1), changeset = name == "empty" ? [] : try Self.changeset(name)
            chain = chain.following(
                LogEntry(
                    version: ServerVersion(rawValue: version), salt: Salt(rawValue: 77 * version),
                    origin: ClientFileID(rawValue: version - 1), clientVersion: ClientVersion(rawValue: 2 * version),
                    timestamp: ChangesetTime(rawValue: .max - version), cumulativeSize: 1_000 * version,
                    changeset: changeset))
            lines.append("after \(name): \(Self.hexadecimal(chain.bytes))")
        }
        let cursor = UploadCursor(clientVersion: 5, serverVersion: 3)
        for user in [nil, "", "somebody"] as [String?] {
            let file = ClientFile(
                ident: 2, salt: 99, uploadCursor: cursor, lockedVersion: 4, lastSeen: 1_700_000_000, user: user)
            lines.append("client file of \(user ?? "nobody"): \(Self.hexadecimal(start.covering(file).bytes))")
        }
        for (name, changeset) in [("empty", []), ("edits", try Self.changeset("edits"))] as [(String, [UInt8])] {
            let change = ReciprocalChange(
                ident: 3, reciprocal: ReciprocalChangeset(version: 8, changeset: changeset))
            lines.append("reciprocal of \(name): \(Self.hexadecimal(start.covering(change).bytes))")
        }
        try Fixture.expect(lines, equals: "values/checksums.txt")
    }

    // MARK: Rows and digests

    /// The rows of a state with values of every type, tombstones, long lists and erased columns, as they are written
    /// change by change; and the digest after each.
    @Test func rowsAndDigestsAreFixed() throws {
        var lines = ["digest of the state without classes: \(StateDigest())"]
        var rows = MemoryRows()
        for (name, edit) in Self.edits {
            var graph = try ObjectGraph(rows: rows)
            let written = try graph.write(as: 2, edit)
            lines.append("\(name): digest \(try StateDigest(of: graph))")
            let writes = try graph.rowWrites(of: written.changes)
            rows.write(writes)
            lines += writes.erasedClasses.map { "erased class \($0.rawValue)" }
            lines += writes.removed.map { "removed \(Self.text($0))" }.sorted()
            lines += writes.rows.map { "\(Self.text($0.address)): \(Self.hexadecimal($0.bytes))" }.sorted()
        }
        try Fixture.expect(lines, equals: "values/rows.txt")
    }

    private static let edits: [(name: String, edit: @Sendable (WriteTransaction) throws -> Void)] = [
        ("schema", StoredValues.addSchema), ("objects", StoredValues.addObjects),
        ("links", StoredValues.linkToThree), ("deletion", StoredValues.deleteThree),
        ("edits", StoredValues.conflict("author")), ("inside", StoredValues.editInside),
        ("erased schema", StoredValues.eraseSchema),
        (
            "long list",
            { tx in
                try tx.addColumn("long", .int, collection: .list, to: "NoKey")
                let list = try tx.create("NoKey").list("long")
                for index in 0..<600 { try list.append(.int(Int64(index % 3))) }
            }
        ),
        ("one more element", { try $0.objects("NoKey").last?.list("long").insert(9, at: 300) }),
        ("short list", { try $0.objects("NoKey").last?.list("long").removeSubrange(1..<600) }),
    ]

    private static func text(_ address: RowAddress) -> String {
        "class \(address.classID.rawValue) key \(hexadecimal(address.key)) part \(address.part)"
    }

    // MARK: Texts

    /// A tracked changeset.
    private static func changeset(_ name: String) throws -> [UInt8] {
        let file = Fixture.folder.appendingPathComponent("changesets/\(name).hex")
        let digits = try String(contentsOf: file, encoding: .utf8).compactMap(\.hexDigitValue)
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    private static func hexadecimal(_ word: UInt64) -> String { String(word, radix: 16) }
}
