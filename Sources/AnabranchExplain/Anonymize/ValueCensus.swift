import AnabranchCore
import AnabranchHistory

/// The different names, keys and values of a synced file: what an `Anonymizer` has to know of it.
struct ValueCensus {
    /// The most memory that they may take, in bytes.
    static let bytesMax = 256 << 20
    /// The memory that a value takes in addition to its bytes, in the tables of the census and of the anonymizer.
    private static let valueOverheadBytes = 96

    private(set) var texts: Set<[UInt8]> = []
    private(set) var binaries: Set<[UInt8]> = []
    private(set) var objectIDs: Set<[UInt8]> = []
    private(set) var uuids: Set<[UInt8]> = []
    /// The digits of Decimals, without zeros at their ends.
    private(set) var digits: Set<[UInt8]> = []
    private(set) var integers: Set<Int64> = []
    private(set) var seconds: Set<Int64> = []
    private(set) var nanoseconds: Set<Int64> = []
    private(set) var floats: Set<Int64> = []
    private(set) var doubles: Set<Int64> = []
    private var bytes = 0

    /// - Throws: `tooLarge`.
    mutating func add(_ value: Payload) throws(HistoryError) {
        switch value {
        case .string(let text): count(texts.insert(text).inserted, text.count)
        case .binary(let data): count(binaries.insert(data).inserted, data.count)
        case .objectID(let id): count(objectIDs.insert(id.bytes).inserted)
        case .uuid(let id): count(uuids.insert(id.bytes).inserted)
        case .int(let number): count(integers.insert(number).inserted)
        case .float(let number): count(floats.insert(number.rank).inserted)
        case .double(let number): count(doubles.insert(number.rank).inserted)
        case .decimal(let number):
            guard let parts = DecimalParts(number) else { return }
            count(digits.insert(parts.digits).inserted)
        case .timestamp(let time):
            count(seconds.insert(time.seconds).inserted)
            count(nanoseconds.insert(Int64(time.nanoseconds)).inserted)
        case .null, .bool, .link, .objectValue, .dictionary, .list, .set, .erased: return
        }
        guard bytes <= Self.bytesMax else {
            throw HistoryError(
                .tooLarge, "its different values take more than \(Self.bytesMax >> 20) MiB: it cannot be anonymized")
        }
    }

    private mutating func count(_ isNew: Bool, _ length: Int = 16) {
        if isNew { bytes += 2 * length + Self.valueOverheadBytes }
    }

    /// - Throws: `tooLarge`, `storeDamaged`.
    mutating func add(_ changeset: [UInt8]) throws(HistoryError) {
        var arena = ChangesetArena()
        do {
            try arena.decode(changeset, version: 0, tag: OriginTag(timestamp: 0, ident: 0))
        } catch {
            throw HistoryError(.storeDamaged, error.reason)
        }
        try arena.forEachValue { value throws(HistoryError) in try add(value) }
    }
}

/// The digits of a Decimal that is neither zero nor infinite nor NaN, apart from its size.
struct DecimalParts {
    /// The digits of the coefficient without zeros at the end.
    var digits: [UInt8]
    private let zeros: Int
    private let number: Decimal128

    init?(_ number: Decimal128) {
        guard !number.isNaN, !number.isInfinite, number.high >> 61 & 3 != 3 else { return nil }
        let coefficient = UInt128(number.high & Self.coefficientMask) << 64 | UInt128(number.low)
        let all = Array(String(coefficient).utf8)
        guard coefficient != 0, all.count <= 34 else { return nil }
        digits = all
        while digits.last == UInt8(ascii: "0") { digits.removeLast() }
        zeros = all.count - digits.count
        self.number = number
    }

    private static let coefficientMask: UInt64 = 1 << 49 - 1

    /// The number with these digits, and sign, exponent and zeros at the end as before.
    var decimal: Decimal128 {
        let text = digits + repeatElement(UInt8(ascii: "0"), count: zeros)
        let coefficient = text.reduce(UInt128(0)) { $0 * 10 + UInt128($1 - UInt8(ascii: "0")) }
        let high = UInt64(truncatingIfNeeded: coefficient >> 64)
        return Decimal128(
            low: UInt64(truncatingIfNeeded: coefficient), high: number.high & ~Self.coefficientMask | high)
    }
}
