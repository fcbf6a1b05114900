// The text form of changesets, for people: one line per instruction, in the words of `Spec/Changeset.md`. Names stand
// bare if they look like identifiers and quoted otherwise; text that is not UTF-8 stands in hexadecimal as x"ff00".

extension ChangesetArena {
    /// The changeset in words: a line with its strings by index, then a line for each live instruction.
    ///
    /// Each line ends with a newline; a changeset without strings and instructions has none.
    public func text(of changeset: ChangesetIndex) -> String {
        var text = ""
        let strings = stringTable(of: changeset)
        if !strings.isEmpty {
            let items = strings.enumerated().map { "\($0)=\(quoted(bytes(of: $1)))" }
            text += "strings: \(items.joined(separator: " "))\n"
        }
        for index in instructionIndices(of: changeset) { text += self.text(of: self[index]) + "\n" }
        return text
    }

    /// An instruction in words, without an end of line.
    public func text(of instruction: Instruction) -> String {
        "\(instruction.kind) \(place(of: instruction))\(operands(of: instruction))"
    }

    /// `Class`, `Class.field`, `Class[key]` or `Class[key].field["path"][0]`.
    package func place(of instruction: Instruction) -> String {
        let className = name(instruction.className)
        switch instruction.kind {
        case .addTable, .eraseTable: return className
        case .addColumn, .eraseColumn: return "\(className).\(name(instruction.field))"
        case .createObject, .eraseObject: return text(of: instruction.object)
        default:
            let path = path(of: instruction).map { "[\($0.isIndex ? "\($0.index)" : quoted(bytes(of: $0.name)))]" }
            return "\(text(of: instruction.object)).\(name(instruction.field))\(path.joined())"
        }
    }

    private func operands(of instruction: Instruction) -> String {
        let priorSize = " (prior size \(instruction.priorSize))"
        switch instruction.kind {
        case .eraseTable, .createObject, .eraseObject, .eraseColumn: return ""
        case .addTable: return tableOperands(of: instruction)
        case .addColumn: return columnOperands(of: instruction)
        case .update:
            let suffix = instruction.isIndexed ? priorSize : instruction.isDefault ? " (default)" : ""
            return " = \(text(of: payload(of: instruction)))\(suffix)"
        case .addInteger: return " by \(Int64(bitPattern: instruction.word0))"
        case .arrayInsert: return " = \(text(of: payload(of: instruction)))\(priorSize)"
        case .arrayMove: return " to \(instruction.destination)\(priorSize)"
        case .arrayErase: return priorSize
        case .clear: return " \(instruction.collection)"
        case .setInsert, .setErase: return " \(text(of: payload(of: instruction)))"
        }
    }

    private func tableOperands(of instruction: Instruction) -> String {
        guard instruction.tableType != .embedded else { return " \(instruction.tableType)" }
        let nullable = instruction.isNullable ? " nullable" : ""
        return " \(instruction.tableType), primary key \(name(instruction.field)) \(instruction.type)\(nullable)"
    }

    private func columnOperands(of instruction: Instruction) -> String {
        var words = " \(instruction.type == .null ? "Mixed" : "\(instruction.type)")"
        if instruction.type == .link { words += " to \(name(instruction.target))" }
        if instruction.isNullable { words += " nullable" }
        if instruction.collection != .single { words += ", \(instruction.collection)" }
        if instruction.collection == .dictionary { words += " by \(instruction.keyType)" }
        return words
    }

    // MARK: Objects and values

    private func text(of object: ObjectKeyID) -> String {
        let (className, key) = primaryKey(of: object)
        return "\(name(className))[\(text(of: key))]"
    }

    private func text(of key: PrimaryKey) -> String {
        switch key {
        case .null: "null"
        case .int(let value): "\(value)"
        case .string(let value): quoted(value)
        case .globalKey(let value): "\(value)"
        case .objectID(let value): "ObjectId \(value)"
        case .uuid(let value): "UUID \(value)"
        }
    }

    private func text(of payload: Payload) -> String {
        switch payload {
        case .null, .objectValue, .dictionary, .list, .set, .erased: "\(payload.type)"
        case .int(let value): "Int \(value)"
        case .bool(let value): "Bool \(value)"
        case .string(let value): "String \(quoted(value))"
        case .binary(let value): "Binary \(hexadecimal(value))"
        case .timestamp(let value): "Timestamp \(value)"
        case .float(let value): "Float \(value.isNaN ? "NaN 0x" + String(value.bitPattern, radix: 16) : "\(value)")"
        case .double(let value): "Double \(value.isNaN ? "NaN 0x" + String(value.bitPattern, radix: 16) : "\(value)")"
        case .decimal(let value): "Decimal \(value)\(value.hasPlainText ? "" : " 0x" + Hex.encode(value.bytes))"
        case .link(let className, let key): "Link \(name(className[...]))[\(text(of: key))]"
        case .objectID(let value): "ObjectId \(value)"
        case .uuid(let value): "UUID \(value)"
        }
    }

    // MARK: Names

    private func name(_ name: NameID) -> String { self.name(bytes(of: name)) }

    private func name(_ name: ArraySlice<UInt8>) -> String {
        let isIdentifier = name.allSatisfy {
            switch $0 {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                true
            default: false
            }
        }
        return isIdentifier && !name.isEmpty ? String(decoding: name, as: UTF8.self) : quoted(name)
    }

    private func quoted<Bytes: Collection>(_ content: Bytes) -> String where Bytes.Element == UInt8 {
        guard String(validating: content, as: UTF8.self) != nil else { return hexadecimal(content) }
        var text: [UInt8] = []
        JSONText.append(string: content, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    private func hexadecimal<Bytes: Sequence>(_ content: Bytes) -> String where Bytes.Element == UInt8 {
        "x\"\(Hex.encode(content))\""
    }
}

// MARK: - Words

extension InstructionKind: CustomStringConvertible {
    public var description: String {
        switch self {
        case .addTable: "AddTable"
        case .eraseTable: "EraseTable"
        case .createObject: "CreateObject"
        case .eraseObject: "EraseObject"
        case .update: "Update"
        case .addInteger: "AddInteger"
        case .addColumn: "AddColumn"
        case .eraseColumn: "EraseColumn"
        case .arrayInsert: "ArrayInsert"
        case .arrayMove: "ArrayMove"
        case .arrayErase: "ArrayErase"
        case .clear: "Clear"
        case .setInsert: "SetInsert"
        case .setErase: "SetErase"
        }
    }
}

extension PayloadType: CustomStringConvertible {
    public var description: String {
        switch self {
        case .set: "Set"
        case .list: "List"
        case .erased: "Erased"
        case .dictionary: "Dictionary"
        case .objectValue: "ObjectValue"
        case .globalKey: "GlobalKey"
        case .null: "Null"
        case .int: "Int"
        case .bool: "Bool"
        case .string: "String"
        case .binary: "Binary"
        case .timestamp: "Timestamp"
        case .float: "Float"
        case .double: "Double"
        case .decimal: "Decimal"
        case .link: "Link"
        case .objectID: "ObjectId"
        case .uuid: "UUID"
        }
    }
}

extension CollectionType: CustomStringConvertible {
    public var description: String {
        switch self {
        case .single: "Single"
        case .list: "List"
        case .dictionary: "Dictionary"
        case .set: "Set"
        }
    }
}

extension TableType: CustomStringConvertible {
    public var description: String {
        switch self {
        case .topLevel: "TopLevel"
        case .embedded: "Embedded"
        case .topLevelAsymmetric: "TopLevelAsymmetric"
        }
    }
}

extension GlobalKey: CustomStringConvertible {
    /// `{high-low}` in lower-case hexadecimal, each part of four digits or more.
    public var description: String { "{\(Self.digits(high))-\(Self.digits(low))}" }

    private static func digits(_ part: UInt64) -> String {
        let digits = String(part, radix: 16)
        return String(repeating: "0", count: max(0, 4 - digits.utf8.count)) + digits
    }
}

extension Timestamp: CustomStringConvertible {
    /// Seconds with nine decimals, exactly: `-1.100000000 s` is one second and 10^8 nanoseconds before 1970.
    public var description: String {
        let fraction = String(nanoseconds.magnitude)
        let sign = seconds < 0 || nanoseconds < 0 ? "-" : ""
        return
            "\(sign)\(seconds.magnitude).\(String(repeating: "0", count: max(0, 9 - fraction.utf8.count)))\(fraction) s"
    }
}

extension ObjectID: CustomStringConvertible {
    /// 24 lower-case hexadecimal digits.
    public var description: String { Hex.encode(bytes) }
}

extension UUIDBytes: CustomStringConvertible {
    /// Lower-case hexadecimal digits in groups of 8, 4, 4, 4 and 12.
    public var description: String {
        withUnsafeBytes(of: (low.littleEndian, high.littleEndian)) { bytes in
            String(unsafeUninitializedCapacity: 36) { text in
                var end = 0
                for (index, byte) in bytes.enumerated() {
                    if index == 4 || index == 6 || index == 8 || index == 10 {
                        text[end] = UInt8(ascii: "-")
                        end += 1
                    }
                    (text[end], text[end + 1]) = (Hex.digit(byte >> 4), Hex.digit(byte & 0xF))
                    end += 2
                }
                return end
            }
        }
    }
}

extension Decimal128 {
    /// True if the text shows all bits: an infinity or NaN can carry further ones.
    var hasPlainText: Bool {
        guard isNaN || isInfinite else { return true }
        return low == 0 && high & (1 << 58 - 1) == 0
    }

    /// The 16 bytes, highest first.
    var bytes: [UInt8] {
        [high, low].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * $0)) }
        }
    }
}
