import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList

/// The data of an account at the head of its file, for one message of a device.
struct FileData: SessionData {
    let dataclasses: [Dataclass]
    let limits: DoorLimits
    let device: String
    let canWrite: Bool
    /// In seconds since 1970.
    let now: UInt64
    let transaction: WriteTransaction
    var records: PendingRecords
    /// Items that were found to be too large when they were written: dataclass and id.
    let tooLarge: Set<[ExactString]>
    /// The most bytes and items that the server would put into a message, whatever the device takes.
    let itemsMax: Int, itemBytesMax: Int

    static let deviceInfo = "deviceinfo"
    private static let filterSuffix = "/filter"

    var day: Int64 { Int64(now / 86_400) }

    /// The version at the head, below what this message writes.
    func position() throws -> UInt64 { try row(.door, RowKey())?.number("position") ?? 0 }

    /// The version that has what this message has written so far.
    func nextPosition() throws -> UInt64 { try position() + (transaction.hasRecorded ? 1 : 0) }

    func dataclass(_ uri: String) throws -> Dataclass {
        guard let dataclass = dataclasses.first(where: { $0.uri.hasBytes(of: uri) }) else {
            throw Status(.notSupported, "no such dataclass", paramName: "uri")
        }
        return dataclass
    }

    private let known = Known()

    /// A row of the kinds that a message looks at again and again: those of the door, of dataclasses, of devices, their
    /// sessions and anchors.
    func row(_ kind: RowKind, _ key: RowKey) throws(HistoryError) -> PropertyListDictionary? {
        try row(kind.place(key.bytes))
    }

    func row(_ place: RecordPlace) throws(HistoryError) -> PropertyListDictionary? { try known.row(place, records) }

    mutating func setRow(_ row: PropertyListDictionary, _ kind: RowKind, _ key: RowKey) throws {
        try records.setRow(row, kind, key)
        known.set(row, at: kind.place(key.bytes))
    }

    func sync(_ uri: String) throws -> PropertyListDictionary { try row(.sync, RowKey(device, uri)) ?? [:] }

    mutating func setSync(_ row: PropertyListDictionary, _ uri: String) throws {
        try setRow(row, .sync, RowKey(device, uri))
    }

    /// The records of a dataclass before they are merged.
    func view(_ dataclass: Dataclass) -> RecordView { known.view(dataclass, transaction) }

    /// Has `view` look again, because classes were added.
    func forgetViews() { known.views = [:] }

    /// Reads what starts need of the device's rows, of all dataclasses together.
    mutating func readAhead() throws {
        for kind in [RowKind.sync, .anchor, .unproven] { try records.readAhead(kind.range(RowKey(device).bytes)) }
    }

    func localIDs(_ dataclass: Dataclass) -> LocalIDs { LocalIDs(device: device, view: view(dataclass)) }

    // MARK: The device

    func info() throws -> PropertyListDictionary? {
        try row(.device, RowKey(device))?["info"]?.dictionary
    }

    func hasDeviceInfo() throws -> Bool { try info() != nil }

    /// Records that the device has come.
    mutating func recordDevice() throws {
        guard device.utf8.count <= 128 else { throw Status(.limitExceeded, "deviceid has at most 128 bytes") }
        let known = try self.row(.device, RowKey(device))
        if known == nil { try makeRoom() }
        var row = known ?? [:]
        guard known == nil || now - min(now, row.number("seen")) >= 86_400 else { return }
        row["seen"] = .number(now)
        try setRow(row, .device, RowKey(device))
    }

    /// Forgets devices that have not come for long.
    private mutating func makeRoom() throws {
        var devices: [(String, seen: UInt64)] = []
        try records.forEachRow(.device, []) { record in
            let name = String(decoding: record.place.key.dropFirst(4), as: UTF8.self)
            devices.append((name, try PendingRecords.dictionary(record.value).number("seen")))
        }
        var count = devices.count
        for (device, seen) in devices where seen + limits.deviceDays * 86_400 < now {
            for kind in [RowKind.device, .sync, .anchor, .localID, .serverID, .unproven, .pulled] {
                try records.eraseRows(kind, RowKey(device).bytes)
            }
            count -= 1
        }
        guard count < limits.devicesMax else {
            throw Status(.limitExceeded, "the account has \(limits.devicesMax) devices already")
        }
    }

    /// The fields that the device knows of an entity; nil for all.
    func supported(_ entity: Dataclass.Entity, of uri: String) throws -> Set<ExactString>? {
        let entities = try info()?["dataclasses"]?[uri]?["entities"]
        return entities?[entity.name]?.array.map { Set($0.compactMap(\.string).map { ExactString($0) }) }
    }

    /// A number that is another one if the device knows other fields of a dataclass.
    func fieldsStamp(_ uri: String) throws -> UInt64 {
        let entities = try info()?["dataclasses"]?[uri]?["entities"]?.dictionary ?? [:]
        let texts = entities.flatMap { name, fields in
            [name] + (fields.array?.compactMap(\.string) ?? []).sorted() + [""]
        }
        return Dataclass.stamp(of: texts.joined(separator: "\0").utf8)
    }

    // MARK: Resources

    func value(of uri: String) throws -> PropertyList {
        if uri == Self.deviceInfo, let info = try info() { return .dictionary(info) }
        if let filtered = try filtered(uri), let filter = try sync(filtered)["filter"] { return filter }
        throw Status(.notFound, paramName: "uri")
    }

    mutating func set(_ value: PropertyList?, of uri: String) throws {
        if uri == Self.deviceInfo {
            guard let info = value?.dictionary, Self.isInfo(info) else {
                throw Status(value == nil ? .notSupported : .badValue, paramName: value == nil ? "uri" : "value")
            }
            try recordDevice()
            var row = try self.row(.device, RowKey(device)) ?? [:]
            guard row["info"] != .dictionary(info) else { return }
            row["info"] = .dictionary(info)
            return try setRow(row, .device, RowKey(device))
        }
        guard let filtered = try filtered(uri) else { throw Status(.notFound, paramName: "uri") }
        var row = try sync(filtered)
        if let value {
            if let fault = RecordFilter.fault(of: value) { throw Status(.badValue, fault, paramName: "value") }
        } else if row["filter"] == nil {
            throw Status(.notFound, paramName: "uri")
        }
        guard row["filter"] != value else { return }
        row["filter"] = value
        row["filter anchor"] = .string("\(row.number("filters") + 1)")
        row["filters"] = .number(row.number("filters") + 1)
        try recordDevice()
        try setSync(row, filtered)
    }

    /// The longest information about a device, in bytes of the binary form.
    private static let infoBytesMax = 64 << 10

    private static func isInfo(_ info: PropertyListDictionary) -> Bool {
        guard let bytes = try? PropertyList.dictionary(info).encoded(as: .binary) else { return false }
        return bytes.count <= infoBytesMax
    }

    /// The dataclass whose filter a resource is.
    private func filtered(_ uri: String) throws -> String? {
        guard uri.hasSuffix(Self.filterSuffix) else { return nil }
        return try dataclass(String(uri.dropLast(Self.filterSuffix.count))).uri
    }

    /// The filter of the device as it is today.
    func filter(_ dataclass: Dataclass, _ sync: PropertyListDictionary) throws -> RecordFilter {
        var filter = RecordFilter(day: day)
        guard let value = sync["filter"]?.dictionary else { return filter }
        filter.days = value["discard_after_days"]?.integer
        let containers = value["constrain_containers"]?.array?.compactMap(\.string)
        filter.containers = try containers?.compactMap { try serverID($0, dataclass) }
        return filter
    }

    /// The server's id of a record by either id.
    func serverID(_ text: String, _ dataclass: Dataclass) throws -> String? {
        let ids = localIDs(dataclass)
        if let id = try ids.record(text, records) { return ids.view.text(of: id) }
        return ids.view.candidates(text).first.flatMap(ids.view.text)
    }

    // MARK: The device's ids

    mutating func takeIDs(_ idMap: PropertyListDictionary, of uri: String, from push: (Push, sent: Int)?) throws {
        let ids = localIDs(try dataclass(uri))
        try ids.readAhead(for: idMap.count, &records)
        var pushed: [ExactString: RecordID] = [:]
        if let (push, sent) = push {
            for item in push.items.prefix(sent) where idMap[item.id] != nil {
                pushed[ExactString(item.id)] = PushPlan.id(item.place, ids.view)
            }
        }
        var taken: [String] = []
        for (text, value) in idMap {
            guard let local = value.string, try ids.view.mayBeLocal(local) else { continue }
            let candidates = push == nil ? ids.view.candidates(text) : []
            let isTaken =
                if let id = try pushed[ExactString(text)] ?? candidates.first(where: ids.view.contains) {
                    try ids.set(local, id, &records)
                } else {
                    try ids.set(local, toGone: candidates, &records)
                }
            if isTaken { taken.append(local) }
        }
        // They may have been those of records that are gone.
        var row = try sync(uri)
        let erased = row.texts("erased"),
            rest = Set(erased.map { ExactString($0) }).subtracting(taken.map { ExactString($0) })
        if rest.count < erased.count {
            row["erased"] = rest.isEmpty ? nil : .texts(rest.sorted().map(\.text))
            try setSync(row, uri)
        }
        guard let (push, sent) = push, !taken.isEmpty else { return }
        var key = RowKey(device, uri)
        key.append(push.context.number("round"))
        key.append(UInt64(sent))
        let before = try records.row(.unproven, key)?.texts("ids") ?? []
        try records.setRow(["ids": .texts(before + taken)], .unproven, key)
    }

    /// Checks the length of a text that is kept.
    func checkName(_ name: String?) throws {
        guard name?.utf8.count ?? 0 <= 256 else {
            throw Status(.limitExceeded, "an anchor has at most 256 bytes", paramName: "anchors")
        }
    }

    mutating func rename(_ uri: String, to name: String) throws {
        try checkName(name)
        var row = try sync(uri)
        var names = try AcceptedNames(row)
        guard names.renameLast(to: name, at: now) else { return }
        names.write(to: &row)
        try setSync(row, uri)
    }
}

/// Rows and records as they are, for the time of one message: each row is read and parsed once.
private final class Known {
    private var rows: [RecordPlace: PropertyListDictionary?] = [:]
    var views: [String: RecordView] = [:]

    func row(_ place: RecordPlace, _ records: PendingRecords) throws(HistoryError) -> PropertyListDictionary? {
        if let known = rows[place] { return known }
        let row = try records.value(at: place).map(PendingRecords.dictionary)
        rows[place] = .some(row)
        return row
    }

    func set(_ row: PropertyListDictionary, at place: RecordPlace) { rows[place] = .some(row) }

    func view(_ dataclass: Dataclass, _ transaction: WriteTransaction) -> RecordView {
        if let view = views[dataclass.uri] { return view }
        let view = RecordView(dataclass, transaction.state)
        views[dataclass.uri] = view
        return view
    }
}
