import AnabranchCore
import AnabranchExplain
import AnabranchHistory

/// The history of a file: its versions, one of them explained, and what is different between two.
extension Inspector {
    /// The bytes of changesets with which an answer ends.
    static let summarisedBytesMax = 8 << 20

    /// Some versions of a file's log, the newest first: those up to `before`.
    func history(_ query: PageQuery) async throws(PageError) -> String {
        let limit = try query.number("limit", usual: 100, 1...UInt64(Self.rowsMax))
        let before = try query.version("before")
        return try await reads.read(try query.path()) { view in
            let last = min(before ?? view.head.version, view.head.version), base = view.head.baseVersion
            var version = last, entries: [String] = [], bytes = 0
            while version > base, UInt64(entries.count) < limit, bytes < Self.summarisedBytesMax,
                let entry = try view.view.entry(version)
            {
                bytes += entry.changeset.count
                entries.append(try view.summary(of: entry))
                version = version - 1
            }
            return jsonObject([
                "path": jsonText(view.path.description), "version": "\(view.head.version)", "base_version": "\(base)",
                "generations": jsonArray(try view.view.generations().map { "\($0.version)" }),
                "versions": jsonArray(entries), "next": version > base ? "\(version)" : "null",
            ])
        }
    }

    /// A version explained, with the values that it lost.
    func explanation(_ query: PageQuery) async throws(PageError) -> String {
        guard let version = try query.version("version") else { throw .badRequest("version is missing") }
        return try await reads.read(try query.path(), isLong: true) { view in
            let explanation = try view.view.explanation(of: version)
            let lost = explanation.lostValues.enumerated().map { number, value in
                jsonObject([
                    "number": "\(number)", "class": jsonText(value.object.className), "key": value.object.key.json,
                    "field": jsonText(value.field), "value": value.value.json, "rule": jsonText(value.rule.rawValue),
                    "winner": "\(value.winner.version)", "author": "\(value.author.version)",
                ])
            }
            let entry = try view.view.entry(version)
            return jsonObject([
                "path": jsonText(view.path.description), "explanation": explanation.json,
                "summary": try entry.map { try view.summary(of: $0) } ?? "null", "lost": jsonArray(lost),
                "newest": "\(view.head.version)", "base_version": "\(view.head.baseVersion)",
            ])
        }
    }

    /// The most objects that a comparison shows.
    static let differencesMax = 500

    /// The objects that two versions do not have alike.
    func diff(_ query: PageQuery) async throws(PageError) -> String {
        guard let older = try query.version("from") else { throw .badRequest("from is missing") }
        let newer = try query.version("to"), reads = reads
        return try await reads.read(try query.path(), at: newer, isLong: true) { view in
            guard older <= view.version else { throw PageError.badRequest("the older version comes first") }
            let before = try reads.state(of: view.id, at: older, in: view.view)
            var found: [String] = [], bytes = 0, isCut = false
            do {
                try view.state.forEachDifference(since: before) { difference in
                    guard found.count < Self.differencesMax, bytes < ValueText.answerBytesMax else { throw Enough() }
                    found.append(difference.json)
                    bytes += found[found.count - 1].utf8.count
                }
            } catch is Enough { isCut = true }
            return jsonObject([
                "path": jsonText(view.path.description), "from": "\(older)", "to": "\(view.version)",
                "cut": "\(isCut)", "objects": jsonArray(found),
            ])
        }
    }

    private struct Enough: Error {}
}

extension ObjectDifference {
    /// The most bytes of a value that a comparison shows.
    private static let valueBytesMax = 4 << 10

    fileprivate var json: String {
        let names = Set((before ?? [:]).keys).union((after ?? [:]).keys).sorted { $0.lexicographicallyPrecedes($1) }
        return jsonObject([
            "class": jsonText(object.className), "key": object.key.json,
            "change": jsonText(before == nil ? "created" : after == nil ? "erased" : "changed"),
            "fields": jsonArray(
                names.map { name in
                    jsonObject([
                        "name": jsonText(name), "before": Self.json(before?[name]), "after": Self.json(after?[name]),
                    ])
                }),
        ])
    }

    private static func json(_ value: [UInt8]?) -> String {
        guard let value else { return "null" }
        let text = String(decoding: value, as: UTF8.self)
        guard value.count > valueBytesMax else { return jsonObject(["value": text]) }
        return jsonObject(["cut": JSONText.quoted(String(text.prefix(valueBytesMax))), "bytes": "\(value.count)"])
    }
}

extension Payload {
    /// The value as lines of an export have it.
    var json: String {
        var text: [UInt8] = []
        JSONText.append(self, .exact, to: &text)
        return String(decoding: text, as: UTF8.self)
    }
}

extension PageView {
    /// The most instructions of one object that a list shows in words, and the most objects that it names.
    private static let linesMax = 20
    private static let namedMax = 4

    /// An entry of the log in a list: who made it when, and what it changes.
    /// - Parameter object: the object that the list is about, whose instructions stand there in words.
    func summary(of entry: LogEntry, about object: ObjectAddress? = nil) throws -> String {
        var arena = ChangesetArena(), changes: [ObjectAddress: InstructionKind] = [:], order: [ObjectAddress] = []
        var schema = 0, count = 0, lines: [String] = []
        let index = try entry.decode(into: &arena)
        for instruction in arena.instructions(of: index) {
            count += 1
            if instruction.kind.isSchema {
                schema += 1
                continue
            }
            let address = ObjectAddress(of: instruction, in: arena)
            if changes[address] == nil { order.append(address) }
            switch instruction.kind {
            case .createObject, .eraseObject: changes[address] = instruction.kind
            default: changes[address] = changes[address] ?? .update
            }
            if address == object, lines.count < Self.linesMax { lines.append(arena.text(of: instruction)) }
        }
        func number(_ kind: InstructionKind) -> Int { changes.values.count { $0 == kind } }
        let user = entry.origin == 0 ? nil : try view.clientFile(entry.origin)?.user
        let release = entry.uploader.release
        return jsonObject([
            "version": "\(entry.version)", "client": "\(entry.origin)", "user": jsonText(user),
            "timestamp": "\(min(entry.timestamp.rawValue, UInt64(Int64.max)))",
            "base": entry.base.map { "\($0)" } ?? "null", "bytes": "\(entry.changeset.count)",
            "release": release == 0 ? "null" : "\(release)",
            // Kept only if merging has changed it.
            "merged": "\(try view.received(entry.version) != nil)", "instructions": "\(count)",
            "schema": "\(schema)", "created": "\(number(.createObject))", "erased": "\(number(.eraseObject))",
            "changed": "\(number(.update))", "objects": jsonArray(order.prefix(Self.namedMax).map(\.json)),
            "lines": jsonArray(lines.map(JSONText.quoted)),
        ])
    }
}

extension ObjectAddress {
    fileprivate var json: String { jsonObject(["class": jsonText(className), "key": key.json]) }
}
