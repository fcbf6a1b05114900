import AnabranchCore

/// The content of a synced file, as writes of a device that was never online: each field at the time when it was last
/// written.
struct JoinedContent: Sendable {
    /// Fields of an object that are written in one changeset.
    private struct Write: Sendable {
        /// The version of the other file on which they are written.
        let base: ServerVersion
        let time: ChangesetTime
        /// The object: a line of the export.
        let line: Int
        /// True if their values count even where they are those that a new object has.
        let areExplicit: Bool
        let fields: [String]

        var moment: Moment { Moment(base: base, time: time) }
    }

    private struct Moment: Hashable {
        let base: ServerVersion
        let time: ChangesetTime
    }

    /// The approximate size at which a changeset ends, in bytes.
    private static let changesetBytes = 128 << 10

    private var classes: [ExportedClass] = []
    private var lines: [[UInt8]] = []
    private let schemaBase: ServerVersion
    /// In the order in which they are uploaded.
    private var writes: [Write] = []
    /// The number of objects that the other file has erased and does not have.
    private(set) var restoredCount = 0
    /// Equal writes have equal digests.
    private(set) var digest = Checksum(low: 0, high: 0)

    /// - Parameter target: the file that is to hold it.
    init(of file: SyncedFile, for target: SyncedFile) throws {
        let times = try FieldTimes(of: file), removals = try Removals(of: target)
        schemaBase = removals.ofSchema
        try file.withState { state in
            try state.forEachExportLine { text in
                switch try ExportLine(parsing: text) {
                case .header: return
                case .declaration(let declared): classes.append(declared)
                case .object(let className, let key, let fields):
                    guard let key = PrimaryKey(exported: key) else { return }
                    let object = ObjectAddress(className.utf8, key)
                    add(text, object, fields.keys.sorted().map(\.text), times, removals)
                    if removals.has(object), try !target.withState({ try $0.has(object) }) { restoredCount += 1 }
                }
                digest = digest.keyed([], text)
            }
        }
        writes.sort { ($0.base, $0.time, $0.line) < ($1.base, $1.time, $1.line) }
        for write in writes {
            digest = digest.keyed(
                [write.base.rawValue, write.time.rawValue, UInt64(write.line), write.areExplicit ? 1 : 0],
                Array(write.fields.joined(separator: "\0").utf8))
        }
    }

    /// Adds the writes of an object. One without a primary key is new to the other file, so there is nothing to remove.
    private mutating func add(
        _ text: [UInt8], _ object: ObjectAddress, _ fields: [String], _ times: FieldTimes, _ removals: Removals
    ) {
        var isNew = false
        if case .globalKey = object.key { isNew = true }
        let start = isNew ? schemaBase : removals.base(of: object)
        // Fields that nobody is known to have written are as old as can be. The object itself is there in any case.
        var unknown: [Moment: [String]] = [Moment(base: start, time: 0): []], known: [Moment: [String]] = [:]
        for field in fields {
            let base = isNew ? start : removals.base(of: field, of: object)
            if let time = times.time(of: field, of: object) {
                known[Moment(base: base, time: time), default: []].append(field)
            } else {
                unknown[Moment(base: base, time: 0), default: []].append(field)
            }
        }
        for (group, areExplicit) in [(unknown, false), (known, true)] {
            for (moment, fields) in group {
                writes.append(
                    Write(
                        base: moment.base, time: moment.time, line: lines.count, areExplicit: areExplicit,
                        fields: fields))
            }
        }
        lines.append(text)
    }

    var objectCount: Int { lines.count }

    /// The changesets that a client file has to upload, so that the other file holds all this. Objects without a
    /// primary key get keys of that client file.
    func changesets(as ident: ClientFileID) throws -> [UploadedChangeset] {
        var recording = Recording(ident: ident), keys = AdoptedKeys(of: ident), rest = writes[...]
        try recording.record(on: schemaBase, at: 0) { try $0.add(classes) }
        while let first = rest.first {
            var bytes = 0
            let group = rest.prefix { write in
                defer { bytes += lines[write.line].count }
                return write.moment == first.moment && bytes < Self.changesetBytes
            }
            rest = rest.dropFirst(group.count)
            try recording.record(on: first.base, at: first.time) { transaction in
                for write in group { try record(write, &keys, in: transaction) }
            }
        }
        return recording.changesets
    }

    private func record(_ write: Write, _ keys: inout AdoptedKeys, in transaction: WriteTransaction) throws {
        guard case .object(let className, let key, let fields) = try ExportLine(parsing: lines[write.line]) else {
            return
        }
        let names = Set(write.fields.map { JSONName($0) })
        let values = fields.filter { names.contains($0.key) }.sorted { $0.key < $1.key }
        let adopted = values.map { ($0.key, keys.links(in: $0.value)) }
        _ = try transaction.importObject(
            className, keys.key(key), Dictionary(uniqueKeysWithValues: adopted), writesEqual: write.areExplicit)
    }
}

/// A device that writes to a file of its own.
private struct Recording {
    let ident: ClientFileID
    private var graph = ObjectGraph()
    private(set) var changesets: [UploadedChangeset] = []

    init(ident: ClientFileID) { self.ident = ident }

    mutating func record(
        on base: ServerVersion, at time: ChangesetTime, _ body: (WriteTransaction) throws -> Void
    ) throws {
        let changeset = try graph.write(as: ident, body).changeset
        guard !changeset.isEmpty else { return }
        let version = (changesets.last?.cursor.clientVersion ?? 0) + 1
        changesets.append(
            UploadedChangeset(
                cursor: UploadCursor(clientVersion: version, serverVersion: base), timestamp: time,
                changeset: changeset))
    }
}

/// Keys of objects without a primary key: in another file the same key can be that of another object.
private struct AdoptedKeys {
    let ident: ClientFileID
    /// The numbers of the keys, in the order of their first appearance.
    private var numbers: [String: UInt64] = [:]

    init(of ident: ClientFileID) { self.ident = ident }

    /// A key as a line of an export has it; other keys stay as they are.
    mutating func key(_ json: JSONValue) -> JSONValue {
        guard let text = json["gk"]?.string else { return json }
        let number = numbers[text] ?? UInt64(numbers.count)
        numbers[text] = number
        return ["gk": .string("\(String(ident.rawValue, radix: 16))-\(String(number, radix: 16))")]
    }

    /// A value with the new keys in its links. Only a link is written as an array under the name `link`.
    mutating func links(in value: JSONValue) -> JSONValue {
        switch value {
        case .array(let elements): return .array(elements.map { links(in: $0) })
        case .object(let members):
            if members.count == 1, let link = members["link"]?.array, link.count == 2 {
                return ["link": [link[0], key(link[1])]]
            }
            let sorted = members.sorted { $0.key < $1.key }
            return .object(Dictionary(uniqueKeysWithValues: sorted.map { ($0.key, links(in: $0.value)) }))
        default: return value
        }
    }
}

extension ObjectGraph {
    fileprivate func has(_ object: ObjectAddress) throws -> Bool {
        guard let number = schema(ofClass: object.className)?.number else { return false }
        return try has(ObjectReference(classID: number, key: object.key))
    }
}
