import AnabranchCore

/// The values of a column as properties of objects have them (`Spec/Capture.md`, section 4).
struct ColumnForm {
    let column: TableShape.Column
    /// The type of the property; `null` for one that holds any value.
    let type: PayloadType
    /// False if the property always has a value.
    let isNullable: Bool
    let date: DateForm?

    /// The form for a property that is not there yet.
    init(_ column: TableShape.Column, of table: CapturedTable) {
        self.column = column
        isNullable = true
        date = table.rule.dates[column.name]
        if column.target != nil {
            type = .link
        } else if date != nil {
            type = .timestamp
        } else if table.shape.isStrict {
            type = Self.strictTypes[column.type] ?? .null
        } else {
            type = .null
        }
    }

    private static let strictTypes: [String: PayloadType] = [
        "INT": .int, "INTEGER": .int, "REAL": .double, "TEXT": .string, "BLOB": .binary,
    ]

    private init(_ column: TableShape.Column, _ type: PayloadType, _ isNullable: Bool, _ date: DateForm?) {
        (self.column, self.type, self.isNullable, self.date) = (column, type, isNullable, date)
    }

    /// The form for a property that the file has already.
    func with(_ type: PayloadType, isNullable: Bool = true) -> ColumnForm {
        ColumnForm(column, type, isNullable, date)
    }

    /// The longest text or blob that an object can hold, in bytes.
    private static let valueBytesMax = 16_777_207

    /// The value for the object; nil if it can hold no such value. Links are resolved by the caller.
    func payload(_ value: SQLValue) -> Payload? {
        if value == .null { return isNullable ? .null : nil }
        if let date {
            guard let time = date.milliseconds(value) else { return type == .null ? plain(value) : nil }
            return .timestamp(Timestamp(milliseconds: time))
        }
        switch (type, value) {
        case (.null, _): return plain(value)
        case (.int, .int), (.double, .real), (.string, .text), (.binary, .blob): return plain(value)
        case (.double, .int(let number)): return Double(exactly: number).map { .double($0) }
        case (.float, .real(let number)): return Double(Float(number)) == number ? .float(Float(number)) : nil
        case (.bool, .int(let number)): return number == 0 || number == 1 ? .bool(number == 1) : nil
        default: return nil
        }
    }

    private func plain(_ value: SQLValue) -> Payload? {
        switch value {
        case .null: return .null
        case .int(let value): return .int(value)
        case .real(let value): return .double(value)
        case .text(let bytes):
            guard bytes.count <= Self.valueBytesMax, String(validating: bytes, as: UTF8.self) != nil else { return nil }
            return .string(bytes)
        case .blob(let bytes): return bytes.count <= Self.valueBytesMax ? .binary(bytes) : nil
        }
    }

    /// The value for the row; nil if a column holds no such value, as a list. Links are resolved by the caller.
    func value(_ content: StateValue) -> SQLValue? {
        switch content {
        case .null: .null
        case .int(let value): .int(value)
        case .bool(let value): .int(value ? 1 : 0)
        case .string(let bytes): .text(bytes)
        case .binary(let bytes): .blob(bytes)
        case .float(let value): value.isNaN ? nil : .real(Double(value))
        case .double(let value): value.isNaN ? nil : .real(value)
        case .timestamp(let time): time.milliseconds.map { (date ?? .text).value(ofMilliseconds: $0) }
        case .uuid(let value): SQLValue(Self.text(value))
        case .objectID(let value): SQLValue(Hex.encode(value.bytes))
        case .decimal, .link, .object, .list, .set, .dictionary: nil
        }
    }

    /// True if the row has what the object has, as far as the column can tell.
    func isSame(_ row: SQLValue, _ content: StateValue) -> Bool {
        if case .timestamp(let time) = content, let milliseconds = time.milliseconds {
            return (date ?? .text).milliseconds(row) == milliseconds
        }
        guard let value = value(content) else { return true }
        // A value that no object can hold stays in its row.
        if value == .null, row != .null, payload(row) == nil { return true }
        // The affinity of a column makes a number of one kind of the other.
        switch (value, row) {
        case (.real(let real), .int(let int)) where !column.keeps(value): return Int64(exactly: real) == int
        case (.int(let int), .real(let real)) where !column.keeps(value): return real == Double(int)
        default: return value == row
        }
    }

    private static func text(_ value: UUIDBytes) -> String {
        let digits = Array(Hex.encode(value.bytes))
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }.joined(separator: "-")
    }
}

extension CapturedTable {
    /// The columns, each with the property that it is; nil where the class has none.
    func columns(in schema: ClassSchema?) -> [(form: ColumnForm, property: Property?)] {
        properties.map { column in
            let property = schema?.property(named: Array(column.name.utf8))
            return (ColumnForm(column, of: self).with(property?.type ?? .null), property)
        }
    }
}

extension Timestamp {
    init(milliseconds: Int64) {
        let (seconds, rest) = milliseconds.quotientAndRemainder(dividingBy: 1000)
        self.init(seconds: seconds, nanoseconds: Int32(rest) * 1_000_000)
    }

    /// The whole milliseconds since 1970, towards the past; nil if there are too many.
    var milliseconds: Int64? {
        let (product, isTooLarge) = seconds.multipliedReportingOverflow(by: 1000)
        let rest = nanoseconds >= 0 ? nanoseconds / 1_000_000 : (nanoseconds - 999_999) / 1_000_000
        let (sum, overflows) = product.addingReportingOverflow(Int64(rest))
        return isTooLarge || overflows ? nil : sum
    }
}
