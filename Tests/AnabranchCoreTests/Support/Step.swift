@testable import AnabranchCore

/// An object as tests name it: A[1] if nothing else is said.
struct ObjectName: Sendable {
    var className = "A"
    var key = PrimaryKey.int(1)
}

/// An element of a path.
enum Element: Sendable, ExpressibleByIntegerLiteral, ExpressibleByStringLiteral {
    case index(UInt32)
    case name(String)

    init(integerLiteral value: UInt32) { self = .index(value) }
    init(stringLiteral value: String) { self = .name(value) }
}

/// A place in an object: a field, or something inside it.
struct Place: Sendable {
    var object = ObjectName()
    var field: String
    var path: [Element] = []

    /// A field of A[1], or something inside it.
    static func at(_ field: String, _ path: Element...) -> Place { Place(field: field, path: path) }

    /// An element of the list A[1].l.
    static func item(_ index: UInt32) -> Place { Place(field: "l", path: [.index(index)]) }
}

/// An instruction as tests write it down.
enum Step: Sendable {
    case addTable(String, TableType = .topLevel, key: String = "_id", PayloadType = .int, nullable: Bool = false)
    case eraseTable(String)
    case createObject(ObjectName = ObjectName())
    case eraseObject(ObjectName = ObjectName())
    /// `size` is written if the place is an element of a list, `isDefault` otherwise.
    case update(Place, Payload, isDefault: Bool = false, size: UInt32 = 5)
    case addInteger(Place, Int64)
    case addColumn(
        String, String, PayloadType = .int, nullable: Bool = false, CollectionType = .single, target: String = "B",
        keyType: PayloadType = .string)
    case eraseColumn(String, String)
    case insert(Place, Payload = .int(0), size: UInt32 = 5)
    case move(Place, to: UInt32, size: UInt32 = 5)
    case erase(Place, size: UInt32 = 5)
    case clear(Place, CollectionType = .list)
    case setInsert(Place, Payload)
    case setErase(Place, Payload)
}

/// Where a changeset's strings stand (`Spec/Changeset.md`, section 5.1).
enum StringOrder: CaseIterable {
    /// All of them before the instructions, as the encoder writes.
    case first
    /// Each before the instruction that needs it first, as a client records.
    case inline
}

/// Writes steps down by the grammar of `Spec/Changeset.md`, section 1, without the library's encoder.
func changeset(_ steps: [Step], strings order: StringOrder = .first) -> [UInt8] {
    var draft = Draft()
    var inline: [UInt8] = []
    var instructions: [UInt8] = []
    var definitions: [UInt8] = []
    for step in steps {
        let (names, instruction) = draft.write(step)
        definitions += names
        instructions += instruction
        inline += names + instruction
    }
    return order == .first ? definitions + instructions : inline
}

func changeset(_ steps: Step..., strings order: StringOrder = .first) -> [UInt8] { changeset(steps, strings: order) }

private struct Draft {
    private var names: [[UInt8]: UInt32] = [:]
    private var definitions = ByteWriter()
    private var writer = ByteWriter()

    mutating func write(_ step: Step) -> (definitions: [UInt8], instruction: [UInt8]) {
        switch step {
        case .addTable(let name, let tableType, let key, let type, let isNullable):
            begin(0, name)
            writer.write(small: tableType.rawValue)
            guard tableType != .embedded else { break }
            self.name(key)
            writer.write(type)
            writer.write(isNullable)
        case .eraseTable(let name): begin(1, name)
        case .createObject(let object):
            begin(2, object.className)
            key(object.key)
        case .eraseObject(let object):
            begin(3, object.className)
            key(object.key)
        case .update(let place, let value, let isDefault, let size):
            begin(4, place)
            self.value(value)
            if case .index = place.path.last { writer.write(size) } else { writer.write(isDefault) }
        case .addInteger(let place, let amount):
            begin(5, place)
            writer.write(amount)
        case .addColumn(let name, let field, let type, let isNullable, let collection, let target, let keyType):
            begin(6, name)
            self.name(field)
            writer.write(type)
            writer.write(isNullable)
            writer.write(small: collection.rawValue)
            if type == .link { self.name(target) }
            if collection == .dictionary { writer.write(keyType) }
        case .eraseColumn(let name, let field):
            begin(7, name)
            self.name(field)
        case .insert(let place, let value, let size):
            begin(8, place)
            self.value(value)
            writer.write(size)
        case .move(let place, let destination, let size):
            begin(9, place)
            writer.write(destination)
            writer.write(size)
        case .erase(let place, let size):
            begin(10, place)
            writer.write(size)
        case .clear(let place, let collection):
            begin(11, place)
            writer.write(small: collection.rawValue)
        case .setInsert(let place, let value):
            begin(12, place)
            self.value(value)
        case .setErase(let place, let value):
            begin(13, place)
            self.value(value)
        }
        return (definitions.take(), writer.take())
    }

    private mutating func begin(_ opcode: UInt8, _ className: String) {
        writer.write(small: opcode)
        name(className)
    }

    private mutating func begin(_ opcode: UInt8, _ place: Place) {
        begin(opcode, place.object.className)
        key(place.object.key)
        name(place.field)
        writer.write(UInt32(place.path.count))
        for element in place.path {
            switch element {
            case .index(let index): writer.write(index)
            case .name(let text):
                writer.write(Int64(-1))
                name(text)
            }
        }
    }

    private mutating func name(_ text: String) { name(Array(text.utf8)) }

    private mutating func name(_ bytes: [UInt8]) {
        let index = names[bytes] ?? UInt32(names.count)
        if names.updateValue(index, forKey: bytes) == nil {
            definitions.write(small: 63)
            definitions.write(index)
            definitions.write(counted: bytes)
        }
        writer.write(index)
    }

    private mutating func key(_ key: PrimaryKey) {
        writer.write(key.type)
        switch key {
        case .null: break
        case .int(let value): writer.write(value)
        case .string(let value): name(value)
        case .globalKey(let value):
            writer.write(value.high)
            writer.write(value.low)
        case .objectID(let value): writer.write(raw: value.bytes)
        case .uuid(let value): writer.write(raw: value.bytes)
        }
    }

    private mutating func value(_ value: Payload) {
        writer.write(value.type)
        switch value {
        case .null, .erased, .list, .dictionary, .set, .objectValue: break
        case .int(let value): writer.write(value)
        case .bool(let value): writer.write(value)
        case .string(let value), .binary(let value): writer.write(counted: value)
        case .timestamp(let value):
            writer.write(value.seconds)
            writer.write(Int64(value.nanoseconds))
        case .float(let value): writer.write(littleEndian: UInt64(value.bitPattern), count: 4)
        case .double(let value): writer.write(littleEndian: value.bitPattern, count: 8)
        case .decimal(let value):
            writer.write(coefficientLow: value.coefficient.low, high: value.coefficient.high)
            writer.write(Int64(value.exponent))
            writer.write(value.isNegative)
        case .link(let className, let key):
            name(className)
            self.key(key)
        case .objectID(let value): writer.write(raw: value.bytes)
        case .uuid(let value): writer.write(raw: value.bytes)
        }
    }
}

extension Payload {
    static func text(_ value: String) -> Payload { .string(Array(value.utf8)) }
    static func link(_ className: String, _ key: Int64) -> Payload {
        .link(className: Array(className.utf8), key: .int(key))
    }
}
