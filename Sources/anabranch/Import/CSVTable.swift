import AnabranchCore
import AnabranchRules
import CommandSupport
import Foundation

/// Turns the records of a table in CSV (RFC 4180) into documents, whose fields have the types that the schema gives the
/// columns: what `export --csv` writes, read again (`Spec/Export.md`, section 8).
struct CSVTable {
    /// The kind of a fault, which begins the reason that people read.
    enum Fault: String {
        /// A quotation mark stands where none can, or is not closed.
        case quote
        /// A record has more or fewer cells than there are names.
        case columns
        /// A text is not UTF-8.
        case encoding
        /// A cell holds no value of the type of its column.
        case value

        func error(in column: String? = nil, _ reason: String) -> LineError {
            LineError(field: column, "\(rawValue): \(reason)")
        }
    }

    private struct Column {
        let name: String
        /// Nil if the schema does not have it.
        let property: ExportedClass.Property?
        /// The primary key of the class that a link leads to.
        let targetKey: ExportedClass.Property?
    }

    private struct Cell {
        var bytes: [UInt8] = []
        var isQuoted = false
    }

    private let columns: [Column]

    /// - Parameters:
    ///   - header: the first record, with the names of the columns.
    ///   - name: the class of the objects, which is one of `classes`.
    /// - Throws: `LineError` if it does not name each column once, or no column is the primary key.
    init(header: [UInt8], _ classes: [ExportedClass], className name: String) throws(LineError) {
        let declared = classes.first { $0.name == name }
        let properties = [declared?.key].compactMap(\.self) + (declared?.properties ?? [])
        var columns: [Column] = []
        for (position, cell) in try Self.cells(of: header).enumerated() {
            guard let name = String(validating: cell.bytes, as: UTF8.self) else {
                throw Fault.encoding.error("the name of column \(position + 1) is not UTF-8")
            }
            guard !name.isEmpty else { throw Fault.columns.error("column \(position + 1) has no name") }
            guard !columns.contains(where: { $0.name.utf8.elementsEqual(name.utf8) }) else {
                throw Fault.columns.error("two columns are called \(name)")
            }
            let property = properties.first { $0.name.utf8.elementsEqual(name.utf8) }
            let target = property?.target.flatMap { target in classes.first { $0.name == target } }
            columns.append(
                Column(
                    name: name, property: property, targetKey: target?.kind == .embedded ? nil : target?.key))
        }
        if let key = declared?.key, !columns.contains(where: { $0.property == key }) {
            let names = columns.map(\.name).joined(separator: ", ")
            throw Fault.columns.error("no column is the primary key, \(key.name): there are \(names)")
        }
        self.columns = columns
    }

    /// The document of a record.
    func document(_ record: [UInt8]) throws(LineError) -> DocumentValue {
        let cells = try Self.cells(of: record)
        guard cells.count == columns.count else {
            throw Fault.columns.error(
                "it has \(counted(cells.count, "cell")), and the first line names \(counted(columns.count, "column"))")
        }
        var members: [JSONName: DocumentValue] = [:]
        for (column, cell) in zip(columns, cells) {
            members[JSONName(column.name)] = try Self.value(of: cell, in: column)
        }
        return .document(members)
    }

    // MARK: Records

    /// The cells of a record, which has no line feed at its end.
    private static func cells(of record: [UInt8]) throws(LineError) -> [Cell] {
        let quote = UInt8(ascii: "\""), comma = UInt8(ascii: ",")
        var cells: [Cell] = [], cell = Cell(), isOpen = false, isClosed = false, index = 0
        while index < record.count {
            let byte = record[index]
            index += 1
            if isOpen {
                if byte != quote {
                    cell.bytes.append(byte)
                } else if index < record.count, record[index] == quote {
                    cell.bytes.append(quote)
                    index += 1
                } else {
                    (isOpen, isClosed) = (false, true)
                }
            } else if byte == comma {
                cells.append(cell)
                (cell, isClosed) = (Cell(), false)
            } else if byte == quote, cell.bytes.isEmpty, !isClosed {
                (isOpen, cell.isQuoted) = (true, true)
            } else if isClosed || byte == quote {
                throw Fault.quote.error(
                    "in cell \(cells.count + 1) something stands before or after the quotation marks: they go around "
                        + "all of a cell, and one in it is written twice")
            } else {
                cell.bytes.append(byte)
            }
        }
        guard !isOpen else { throw Fault.quote.error("the quotation marks of cell \(cells.count + 1) are not closed") }
        return cells + [cell]
    }

    // MARK: Values

    private static func value(of cell: Cell, in column: Column) throws(LineError) -> DocumentValue {
        if cell.bytes.isEmpty, isNull(cell, in: column) { return .null }
        guard let text = String(validating: cell.bytes, as: UTF8.self) else {
            throw Fault.encoding.error(in: column.name, "it is not UTF-8")
        }
        guard let property = column.property else { return .scalar(.string(cell.bytes)) }
        if property.collection != .single || property.type == .null
            || property.target != nil && column.targetKey == nil
        {
            do { return try DocumentValue(line: cell.bytes) } catch {
                throw Fault.value.error(in: column.name, error.reason)
            }
        }
        let type = (column.targetKey ?? property).type
        if let value = scalar(text, of: type) ?? constant(cell.bytes) { return value }
        throw Fault.value.error(
            in: column.name, "'\(String(excerptOf: cell.bytes))' is not of type \(type): \(hint(of: type))")
    }

    /// True if a cell without bytes stands for null. An empty text has quotation marks here. Other programs write it
    /// without, and with them what is missing: it is the value that the column can have.
    private static func isNull(_ cell: Cell, in column: Column) -> Bool {
        guard let property = column.property else { return !cell.isQuoted }
        let type = (column.targetKey ?? property).type
        guard property.collection == .single, type == .string || type == .binary else { return true }
        return !cell.isQuoted && (property.isNullable || column.targetKey != nil)
    }

    /// The value of a cell, in the form that its type has in a table; nil if it cannot be read.
    private static func scalar(_ text: String, of type: PayloadType) -> DocumentValue? {
        switch type {
        case .string: return .scalar(.string(Array(text.utf8)))
        case .bool: return flag(text).map { .scalar(.bool($0)) }
        case .int: return DecimalText(text.utf8) == nil ? nil : .number(Array(text.utf8))
        case .double: return number(text)
        case .float:
            // The digits that tell a Float from all others are not those of the Double that it is.
            if let value = Float(text), value.isFinite, "\(value)" == text { return .scalar(.double(Double(value))) }
            return number(text)
        case .decimal: return constant("$numberDecimal", text)
        case .objectID: return ObjectID(text).map { .scalar(.objectID($0)) }
        case .uuid: return constant("$uuid", text)
        case .binary: return Base64.decode(text.utf8).map { .scalar(.binary($0)) }
        case .timestamp: return Timestamp(exactly: text).map { .scalar(.timestamp($0)) }
        default: return nil
        }
    }

    /// A Bool as exports, Python, spreadsheets, PostgreSQL and SQLite spell it.
    private static func flag(_ text: String) -> Bool? {
        switch text.lowercased() {
        case "true", "t", "1": true
        case "false", "f", "0": false
        default: nil
        }
    }

    private static func number(_ text: String) -> DocumentValue? {
        for value in [Double.nan, .infinity, -.infinity] where text == value.word { return .scalar(.double(value)) }
        return DecimalText(text.utf8) == nil ? nil : .number(Array(text.utf8))
    }

    private static func constant(_ name: String, _ text: String) -> DocumentValue? {
        var json = Array("{\"\(name)\":".utf8)
        JSONText.append(string: Array(text.utf8), to: &json)
        return constant(json + [UInt8(ascii: "}")])
    }

    /// A constant of extended JSON, as an export has it where a table has no form for a value; nil for anything else.
    private static func constant(_ json: [UInt8]) -> DocumentValue? {
        guard json.first == UInt8(ascii: "{"), let value = try? DocumentValue(line: json), case .scalar = value else {
            return nil
        }
        return value
    }

    private static func hint(of type: PayloadType) -> String {
        switch type {
        case .bool: "true or false"
        case .int: "digits, as in 42"
        case .double, .float, .decimal: "a number with a point, as in 1.5, and without signs of thousands"
        case .objectID: "24 hexadecimal digits"
        case .uuid: "as in 00112233-4455-6677-8899-aabbccddeeff"
        case .binary: "Base64"
        case .timestamp: "as in 2025-09-30T12:00:00Z"
        default: "as `anabranch export --csv` writes it"
        }
    }
}

extension Timestamp {
    /// The time in a text of RFC 3339, of which no digit is cut; nil for another text, and for more than nine digits of
    /// a second. As in tables of PostgreSQL, there may be a space before the hour, and an offset without minutes.
    fileprivate init?(exactly text: String) {
        var bytes = Array(text.utf8)
        if bytes.count > 10, bytes[10] == UInt8(ascii: " ") { bytes[10] = UInt8(ascii: "T") }
        if bytes.dropLast(2).last.map({ $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-") }) ?? false {
            bytes += Array("00".utf8)
        }
        guard let milliseconds = RFC3339.milliseconds(bytes) else { return nil }
        let digits = text.utf8.drop { $0 != UInt8(ascii: ".") }.dropFirst().prefix { 0x30...0x39 ~= $0 }
        guard digits.count <= 9 else { return nil }
        let padded = String(decoding: digits, as: UTF8.self).padding(toLength: 9, withPad: "0", startingAt: 0)
        let fraction = Int32(padded) ?? 0, remainder = (milliseconds % 1000 + 1000) % 1000
        let seconds = (milliseconds - remainder) / 1000
        // Both parts have the same sign.
        if seconds < 0, fraction > 0 {
            self.init(seconds: seconds + 1, nanoseconds: fraction - 1_000_000_000)
        } else {
            self.init(seconds: seconds, nanoseconds: fraction)
        }
    }
}
