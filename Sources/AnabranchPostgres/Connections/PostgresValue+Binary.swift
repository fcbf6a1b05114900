#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory
import AnabranchPostgresWire

/// Parameters in binary form: numbers have 64 bits, and those above 2^63−1 are stored as negative ones.
extension PostgresValue {
    static func number(_ number: Int64) -> PostgresValue { .binary(number.bigEndianBytes) }

    static func number(_ number: UInt64) -> PostgresValue { .number(Int64(bitPattern: number)) }

    static func number(_ number: some TypedNumber) -> PostgresValue { .number(number.rawValue) }

    /// A number to be looked for: nothing is stored under numbers beyond 2^63−1.
    static func sought(_ number: some TypedNumber) -> PostgresValue { .number(Int64(clamping: number.rawValue)) }

    static func bytes(_ bytes: [UInt8]) -> PostgresValue { .binary(bytes) }

    /// An array of the type that a statement says.
    static func cells(_ cells: [Cell], _ type: Cell.Kind) -> PostgresValue {
        guard !cells.isEmpty else { return .binary(words(0, 0, type.rawValue)) }
        var bytes = words(1, cells.contains { $0 == .null } ? 1 : 0, type.rawValue, Int32(cells.count), 1)
        for cell in cells {
            switch cell {
            case .null: bytes += words(-1)
            case .number(let number): bytes += words(8) + number.bigEndianBytes
            case .bytes(let content): bytes += words(Int32(content.count)) + content
            case .flag(let flag): bytes += words(1) + [flag ? 1 : 0]
            }
        }
        return .binary(bytes)
    }

    static func numbers(_ numbers: some Sequence<UInt64>) -> PostgresValue {
        .cells(numbers.map { .number(Int64(bitPattern: $0)) }, .number)
    }

    private static func words(_ words: Int32...) -> [UInt8] { words.flatMap(\.bigEndianBytes) }
}

/// A value of a column.
enum Cell: Equatable {
    /// A type, with the number that PostgreSQL has for it.
    enum Kind: Int32 {
        case number = 20
        case bytes = 17
        case flag = 16

        /// Its name in SQL.
        var name: String {
            switch self {
            case .number: "bigint"
            case .bytes: "bytea"
            case .flag: "boolean"
            }
        }
    }

    case null
    case number(Int64)
    case bytes([UInt8])
    case flag(Bool)

    init(_ number: UInt64) { self = .number(Int64(bitPattern: number)) }
    init(_ number: some TypedNumber) { self.init(number.rawValue) }
    init(_ number: UInt64?) { self = number.map { Cell($0) } ?? .null }
    init(_ number: (some TypedNumber)?) { self.init(number?.rawValue) }
    init(_ bytes: [UInt8]?) { self = bytes.map(Cell.bytes) ?? .null }
    init(_ text: String?) { self.init(text.map { Array($0.utf8) }) }
    init(_ checksum: Checksum) { self = .bytes(checksum.bytes) }
}

extension FixedWidthInteger {
    fileprivate var bigEndianBytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }
}

/// Values of rows in binary form; a value of another type is damage.
extension PostgresRows {
    func optionalNumber(_ row: Int, _ column: Int) throws(HistoryError) -> UInt64? {
        let number = withBytes(row, column) { bytes -> UInt64? in
            guard bytes.count == 8 else { return nil }
            return UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self))
        }
        guard let number else { return nil }
        guard let number else { throw damaged(column) }
        return number
    }

    func number(_ row: Int, _ column: Int) throws(HistoryError) -> UInt64 {
        guard let number = try optionalNumber(row, column) else { throw damaged(column) }
        return number
    }

    func number<Number: TypedNumber>(_ row: Int, _ column: Int) throws(HistoryError) -> Number {
        Number(rawValue: try number(row, column))
    }

    func requiredBytes(_ row: Int, _ column: Int) throws(HistoryError) -> [UInt8] {
        guard let bytes = bytes(row, column) else { throw damaged(column) }
        return bytes
    }

    func checksum(_ row: Int, _ column: Int) -> Checksum? { bytes(row, column).flatMap(Checksum.init(bytes:)) }

    func flag(_ row: Int, _ column: Int) -> Bool { withBytes(row, column) { $0.first == 1 } ?? false }

    func text(_ row: Int, _ column: Int) -> String? { self[row, column] }

    /// Turns each row into a value.
    func map<Value>(_ value: (Int) throws(HistoryError) -> Value) throws(HistoryError) -> [Value] {
        var values: [Value] = []
        for row in 0..<count { values.append(try value(row)) }
        return values
    }

    private func damaged(_ column: Int) -> HistoryError {
        HistoryError(.storeDamaged, "column \(column + 1) of a row has another type")
    }
}
#endif
