import AnabranchCore
import AnabranchHistory
import AnabranchPropertyList

/// The kinds of records that the door keeps (`Spec/OverTheAirServer.md`, section 7).
enum RowKind: UInt8, CaseIterable {
    case door = 1
    case dataclass, change, device, sync, anchor, localID, serverID, unproven, pulled

    /// The number of the door.
    static let space: UInt16 = 2

    func place(_ key: [UInt8]) -> RecordPlace { RecordPlace(space: Self.space, kind: rawValue, key: key) }

    func range(_ prefix: [UInt8]) -> RecordRange { RecordRange(space: Self.space, kind: rawValue, prefix: prefix) }
}

/// A key of records, or the content of a short one: texts with their lengths before them, so that none is the beginning
/// of another, and numbers in the order of their bytes.
struct RowKey {
    private(set) var bytes: [UInt8] = []

    init(_ texts: String...) { for text in texts { append(text) } }

    /// A key that begins as another one.
    init(_ prefix: [UInt8], _ text: String) {
        bytes.reserveCapacity(prefix.count + 4 + text.utf8.count)
        bytes += prefix
        append(text)
    }

    mutating func append(_ text: String) {
        append(UInt32(clamping: text.utf8.count))
        bytes += text.utf8
    }

    mutating func append<Number: FixedWidthInteger & UnsignedInteger>(_ number: Number) {
        withUnsafeBytes(of: number.bigEndian) { bytes += $0 }
    }

    /// The first texts of an encoded key, and the bytes that follow them.
    /// - Throws: `storeDamaged` if there are fewer.
    static func texts(
        _ count: Int, of bytes: ArraySlice<UInt8>
    ) throws(HistoryError) -> (texts: [String], rest: ArraySlice<UInt8>) {
        var texts: [String] = [], rest = bytes
        for _ in 0..<count {
            let length = rest.prefix(4).reduce(0) { $0 << 8 | Int($1) }
            guard rest.count >= 4 + length else {
                throw HistoryError(.storeDamaged, "a record of the property-list door is cut off")
            }
            texts.append(String(decoding: rest.dropFirst(4).prefix(length), as: UTF8.self))
            rest = rest.dropFirst(4 + length)
        }
        return (texts, rest)
    }
}

extension PendingRecords {
    /// The property list in a record; nil if there is none.
    func row(_ kind: RowKind, _ key: RowKey) throws(HistoryError) -> PropertyListDictionary? {
        try value(at: kind.place(key.bytes)).map(Self.dictionary)
    }

    mutating func setRow(_ row: PropertyListDictionary?, _ kind: RowKind, _ key: RowKey, expiresAt: UInt64 = 0) throws {
        let bytes = try row.map { try PropertyList.dictionary($0).encoded(as: .binary, limits: .rows) }
        set(bytes, at: kind.place(key.bytes), expiresAt: expiresAt)
    }

    /// Calls `body` with the records whose keys begin with a prefix and are above another, in their order.
    func forEachRow(
        _ kind: RowKind, _ prefix: [UInt8], after last: [UInt8]? = nil, _ body: (DoorRecord) throws -> Void
    ) throws {
        var range = kind.range(prefix)
        if let last { range.lower = last + [0] }
        while true {
            let page = try records(in: range, countMax: 1_000)
            for record in page { try body(record) }
            guard page.count == 1_000, let last = page.last else { return }
            range.lower = last.place.key + [0]
        }
    }

    mutating func eraseRows(_ kind: RowKind, _ prefix: [UInt8]) throws {
        var places: [RecordPlace] = []
        try forEachRow(kind, prefix) { places.append($0.place) }
        for place in places { set(nil, at: place) }
    }

    static func dictionary(_ bytes: [UInt8]) throws(HistoryError) -> PropertyListDictionary {
        guard let row = (try? PropertyList(parsing: bytes, limits: .rows))?.dictionary else {
            throw HistoryError(.storeDamaged, "a record of the property-list door cannot be read")
        }
        return row
    }
}

extension PropertyListLimits {
    /// Records are as long as what devices may send, and objects may be.
    static let rows = PropertyListLimits(bytesMax: 64 << 20, depthMax: 64, valuesMax: 1 << 24)
}

extension PropertyListDictionary {
    /// A number that was set as `number`.
    func number(_ key: String) -> UInt64 { UInt64(bitPattern: self[key]?.integer ?? 0) }

    func text(_ key: String) -> String? { self[key]?.string }

    func texts(_ key: String) -> [String] { self[key]?.array?.compactMap(\.string) ?? [] }
}

extension PropertyList {
    static func number(_ number: UInt64) -> PropertyList { .integer(Int64(bitPattern: number)) }

    static func texts(_ texts: some Sequence<String>) -> PropertyList { .array(texts.map { .string($0) }) }
}
