import AnabranchCore
import AnabranchHistory

/// Makes the keys and values of the door's records. Numbers are big-endian, so keys are in the order of their numbers.
struct RecordWriter {
    private(set) var bytes: [UInt8] = []

    mutating func append<Number: FixedWidthInteger & UnsignedInteger>(_ number: Number) {
        withUnsafeBytes(of: number.bigEndian) { bytes += $0 }
    }

    mutating func append(_ place: ChangePlace) {
        append(place.version.rawValue)
        append(place.ordinal)
    }

    /// A text with its length before it, so that no key is the beginning of another.
    mutating func append(counted text: some Sequence<UInt8>) {
        let text = Array(text)
        append(UInt32(clamping: text.count))
        bytes += text
    }

    mutating func append(_ text: some Sequence<UInt8>) { bytes += text }
}

/// Reads keys and values of the door's records.
struct RecordReader {
    private(set) var rest: ArraySlice<UInt8>

    init(_ bytes: some Collection<UInt8>) { rest = Array(bytes)[...] }

    mutating func number<Number: FixedWidthInteger & UnsignedInteger>() throws(HistoryError) -> Number {
        try take(Number.bitWidth / 8).reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
    }

    mutating func place() throws(HistoryError) -> ChangePlace {
        ChangePlace(version: ServerVersion(rawValue: try number()), ordinal: try number())
    }

    mutating func counted() throws(HistoryError) -> ArraySlice<UInt8> {
        let count: UInt32 = try number()
        return try take(Int(count))
    }

    private mutating func take(_ count: Int) throws(HistoryError) -> ArraySlice<UInt8> {
        guard rest.count >= count else {
            throw HistoryError(.storeDamaged, "a record of Simperium's door is too short")
        }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }
}
