package import AnabranchCore
package import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList
package import AnabranchServer
import Synchronization

/// The actions of operators on devices (`Spec/OverTheAirServer.md`, section 9).
extension OverTheAirWire {
    package func act(
        _ action: String, on path: VirtualPath, _ arguments: [String: JSONValue]
    ) async throws(DoorActionError) -> DoorAnswer {
        func text(_ key: String) throws(DoorActionError) -> String? {
            guard let value = arguments[key] else { return nil }
            guard let text = value.string, !text.isEmpty else { throw .malformed("\(key) has to be a text") }
            return text
        }
        let app = String(decoding: path.bytes.prefix { $0 != UInt8(ascii: "/") }, as: UTF8.self)
        let device = try text("device"), uri = try text("dataclass")
        guard let dataclasses = settings.apps[exactly: app]?.dataclasses else { throw .unknown("app with devices") }
        if action == "devices" { return DoorAnswer(["devices": .array(try await devices(of: path))]) }
        guard let uri else { throw .malformed("dataclass is missing") }
        guard let dataclass = dataclasses.first(where: { $0.uri.hasBytes(of: uri) }) else {
            throw .unknown("dataclass; known: " + dataclasses.map(\.uri).joined(separator: ", "))
        }
        if let device, try await !self.devices(of: path).contains(where: { $0["device"] == .string(device) }) {
            throw .unknown("device of this account")
        }
        switch action {
        case "reset":
            try await reset(dataclass, device, path)
            let whom = device.map { "the device \($0)" } ?? "all devices"
            return DoorAnswer(["reset": .string(uri)], audit: "\(uri) was reset for \(whom)")
        case "match":
            guard let bytes = try text("records").flatMap({ Base64.decode($0.utf8) }),
                let items = (try? PropertyList(parsing: bytes, limits: .rows))?.dictionary
            else { throw .malformed("records has to be the base64 of a property list, a dictionary of records") }
            return DoorAnswer(try await match(items, dataclass, dataclasses, device, path))
        default: throw .unknown("action; known: devices, reset, match")
        }
    }

    private func devices(of path: VirtualPath) async throws(DoorActionError) -> [JSONValue] {
        let found = Mutex<[JSONValue]>([])
        try await look(at: path) { _, records in
            var devices: [JSONValue] = []
            try records.forEachRow(.device, []) { record in
                let name = String(decoding: record.place.key.dropFirst(4), as: UTF8.self)
                let row = try PendingRecords.dictionary(record.value)
                var dataclasses: [JSONValue] = []
                let prefix = RowKey(name).bytes
                try records.forEachRow(.sync, prefix) { record in
                    let sync = try PendingRecords.dictionary(record.value)
                    dataclasses.append([
                        "dataclass": .string(
                            String(decoding: record.place.key.dropFirst(prefix.count + 4), as: UTF8.self)),
                        "sessions": .integer(Int64(clamping: sync.number("round"))),
                        "form": sync.text("form").map { .string($0) } ?? .null,
                    ])
                }
                devices.append([
                    "device": .string(name), "seen": .integer(Int64(clamping: row.number("seen"))),
                    "model": row["info"]?["model"]?.string.map { .string($0) } ?? .null,
                    "dataclasses": .array(dataclasses),
                ])
            }
            found.withLock { [devices] in $0 = devices }
        }
        return found.withLock { $0 }
    }

    /// Has the devices take the server's data and give up their own, at their next sync.
    private func reset(
        _ dataclass: Dataclass, _ device: String?, _ path: VirtualPath
    ) async throws(DoorActionError) {
        var random = SystemRandomNumberGenerator()
        let name = PropertyList.string(String(random.next() as UInt64, radix: 36)), uri = dataclass.uri
        try await look(at: path, writes: true) { _, records in
            let (kind, key) = device.map { (RowKind.sync, RowKey($0, uri)) } ?? (.dataclass, RowKey(uri))
            var row = try records.row(kind, key) ?? [:]
            row["reset"] = name
            try records.setRow(row, kind, key)
        }
    }

    /// The outcome of a match, thrown so that nothing is written.
    private struct DryRun: Error {
        let answer: JSONValue
    }

    /// Shows the outcome of a slow sync of a device with these records.
    private func match(
        _ items: PropertyListDictionary, _ dataclass: Dataclass, _ dataclasses: [Dataclass], _ device: String?,
        _ path: VirtualPath
    ) async throws(DoorActionError) -> JSONValue {
        let now = unixSeconds(), settings = settings, found = Mutex<JSONValue>(.null)
        do throws(DoorActionError) {
            try await look(at: path, writes: true) { transaction, records in
                var data = FileData(
                    dataclasses: dataclasses, limits: settings.door, device: device ?? "-", canWrite: true, now: now,
                    transaction: transaction, records: records, tooLarge: [],
                    itemsMax: settings.session.itemsMax, itemBytesMax: settings.session.itemBytesMax)
                var anchors = Anchors()
                (anchors.mode, anchors.nextDeviceAnchor) = (.slow, "a dry run")
                anchors.resetAnchor = try data.resetID(dataclass.uri)
                try data.start(dataclass.uri, anchors)
                _ = try data.mergeWaiting(dataclass.uri)
                var pull = Pull(uri: dataclass.uri, anchors: anchors)
                pull.commands = [Pull.Command(sequence: 1, changes: Changes(.records, items))]
                var mingle = try ClassMingle(data, pull)
                mingle.matches = []
                try mingle.run(&data)
                let push = try mingle.push(&data)
                throw DryRun(answer: Self.report(mingle, push))
            }
        } catch {
            guard case .failed(let reason) = error else { throw error }
            switch reason {
            case let run as DryRun: found.withLock { $0 = run.answer }
            case let status as Status: throw .malformed(status.description ?? "status \(status.code)")
            case let refusal as StartRefusal: throw .malformed(refusal.reason)
            case let item as ItemTooLarge: throw .malformed("the record \(item.id) is too large")
            default: throw error
            }
        }
        return found.withLock { $0 }
    }

    private static func report(_ mingle: ClassMingle, _ push: Push) -> JSONValue {
        func names(_ names: [String]) -> JSONValue { .array(names.sorted().map { .string($0) }) }
        let matches = (mingle.matches ?? []).map { match -> JSONValue in
            [
                "id": .string(match.id), "record": match.record.map { .string($0) } ?? .null,
                "by": .string(match.way), "from_device": names(match.fromDevice),
                "from_server": names(match.fromServer),
            ]
        }
        let refused = mingle.failures.sorted { $0.key < $1.key }.map { id, status -> JSONValue in
            ["id": .string(id.text), "reason": .string(status.description ?? "status \(status.code)")]
        }
        return [
            "matches": .array(matches), "refused": .array(refused), "pushed": .integer(Int64(push.items.count)),
        ]
    }

    /// Looks at the head of a file, and perhaps writes records.
    private func look(
        at path: VirtualPath, writes: Bool = false,
        _ body: @escaping @Sendable (WriteTransaction, inout PendingRecords) throws -> Void
    ) async throws(DoorActionError) {
        do {
            if !writes {
                _ = try await server().readHead(of: path) { transaction, records in
                    var records = records
                    try body(transaction, &records)
                }
                return
            }
            let write = HeadWrite(at: writeTime) { transaction, records in
                try body(transaction, &records)
                return []
            }
            _ = try await server().write([write], atHeadOf: path).first?.get()
        } catch {
            throw .failed(error)
        }
    }
}
