import AnabranchCore

/// Writes changesets by the grammar of `Spec/Changeset.md`, section 1: a small encoder that shares no code with the one
/// that it puts to the test. Names are interned in the order of their first use.
package struct ChangesetWriter {
    /// The position of a changeset's strings (section 5.1).
    package enum StringOrder: CaseIterable, Sendable {
        /// All of them before the instructions, as the encoder writes.
        case first
        /// Each before the instruction that needs it first, as a client records.
        case inline
    }

    private let order: StringOrder
    private var indices: [[UInt8]: Int] = [:]
    private var definitions: [UInt8] = []
    private var instructions: [UInt8] = []

    package init(strings order: StringOrder = .first) { self.order = order }

    package init(_ instructions: [NamedInstruction], strings order: StringOrder = .first) {
        self.order = order
        for instruction in instructions { write(instruction) }
    }

    package var bytes: [UInt8] { definitions + instructions }

    /// True if no instruction was written.
    package var isEmpty: Bool { instructions.isEmpty }

    package mutating func write(_ instruction: NamedInstruction) {
        let start = instructions.count
        append(instruction)
        guard order == .inline else { return }
        instructions.insert(contentsOf: definitions, at: start)
        definitions = []
    }

    /// Defines a string, unless it is defined already, and returns its index.
    @discardableResult
    package mutating func intern(_ name: some Collection<UInt8>) -> Int {
        let bytes = Array(name)
        if let index = indices[bytes] { return index }
        let index = indices.count
        indices[bytes] = index
        definitions.append(63)
        Self.append(index, to: &definitions)
        Self.append(bytes.count, to: &definitions)
        definitions += bytes
        return index
    }

    // MARK: Instructions

    private mutating func append(_ instruction: NamedInstruction) {
        switch instruction {
        case .addTable(let name, let tableType, let key, let type, let isNullable):
            begin(.addTable, name)
            append(Int(tableType.rawValue))
            guard tableType != .embedded else { break }
            append(name: key)
            append(type)
            append(isNullable)
        case .eraseTable(let name): begin(.eraseTable, name)
        case .createObject(let object): begin(.createObject, object)
        case .eraseObject(let object): begin(.eraseObject, object)
        case .update(let path, let value, let isDefault, let size):
            begin(.update, path)
            append(value)
            if path.isElement { append(size) } else { append(isDefault) }
        case .addInteger(let path, let amount):
            begin(.addInteger, path)
            append(amount)
        case .addColumn(let name, let field, let type, let isNullable, let collection, let target, let keyType):
            begin(.addColumn, name)
            append(name: field)
            append(type)
            append(isNullable)
            append(Int(collection.rawValue))
            if type == .link { append(name: target) }
            if collection == .dictionary { append(keyType) }
        case .eraseColumn(let name, let field):
            begin(.eraseColumn, name)
            append(name: field)
        default: appendCollectionInstruction(instruction)
        }
    }

    private mutating func appendCollectionInstruction(_ instruction: NamedInstruction) {
        switch instruction {
        case .insert(let path, let value, let size):
            begin(.arrayInsert, path)
            append(value)
            append(size)
        case .move(let path, let destination, let size):
            begin(.arrayMove, path)
            append(destination)
            append(size)
        case .erase(let path, let size):
            begin(.arrayErase, path)
            append(size)
        case .clear(let path, let collection):
            begin(.clear, path)
            append(Int(collection.rawValue))
        case .setInsert(let path, let value):
            begin(.setInsert, path)
            append(value)
        case .setErase(let path, let value):
            begin(.setErase, path)
            append(value)
        default: break
        }
    }

    private mutating func begin(_ kind: InstructionKind, _ className: String) {
        instructions.append(kind.rawValue)
        append(name: className)
    }

    private mutating func begin(_ kind: InstructionKind, _ object: ObjectName) {
        begin(kind, object.className)
        append(object.key)
    }

    private mutating func begin(_ kind: InstructionKind, _ path: FieldPath) {
        begin(kind, path.object)
        append(name: path.field)
        append(path.path.count)
        for element in path.path {
            switch element {
            case .index(let index): append(index)
            case .name(let name):
                append(-1)
                append(name: name)
            }
        }
    }

    // MARK: Values

    private mutating func append(_ key: PrimaryKey) {
        append(key.type)
        switch key {
        case .null: break
        case .int(let value): append(value)
        case .string(let value): append(intern(value))
        case .globalKey(let value):
            append(value.high)
            append(value.low)
        case .objectID(let value): instructions += value.bytes
        case .uuid(let value): instructions += value.bytes
        }
    }

    private mutating func append(_ value: Payload) {
        append(value.type)
        switch value {
        case .null, .erased, .list, .dictionary, .set, .objectValue: break
        case .int(let value): append(value)
        case .bool(let value): append(value)
        case .string(let value), .binary(let value):
            append(value.count)
            instructions += value
        case .timestamp(let value):
            append(value.seconds)
            append(value.nanoseconds)
        case .float(let value): append(littleEndian: value.bitPattern)
        case .double(let value): append(littleEndian: value.bitPattern)
        case .decimal(let value):
            append(UInt128(value.high & (1 << 49 - 1)) << 64 | UInt128(value.low))
            append(Int(value.high >> 49 & 0x3FFF) - 6176)
            append(value.isNegative)
        case .link(let className, let key):
            append(intern(className))
            append(key)
        case .objectID(let value): instructions += value.bytes
        case .uuid(let value): instructions += value.bytes
        }
    }

    // MARK: Operands

    private mutating func append(name: String) { append(intern(name.utf8)) }

    private mutating func append(_ type: PayloadType) { append(Int(type.rawValue)) }

    private mutating func append(_ flag: Bool) { instructions.append(flag ? 1 : 0) }

    private mutating func append(littleEndian bits: some FixedWidthInteger) {
        withUnsafeBytes(of: bits.littleEndian) { instructions += $0 }
    }

    private mutating func append(_ number: some FixedWidthInteger) { Self.append(number, to: &instructions) }

    private static func append(_ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
        var rest = number < 0 ? ~number : number
        while rest > 63 {
            bytes.append(0x80 | UInt8(truncatingIfNeeded: rest))
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest) | (number < 0 ? 0x40 : 0))
    }
}
