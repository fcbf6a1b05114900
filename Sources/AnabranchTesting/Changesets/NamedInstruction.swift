package import AnabranchCore

/// An object by the name of its class and its key; A[1] by default.
package struct ObjectName: Sendable {
    package var className: String
    package var key: PrimaryKey

    package init(className: String = "A", key: PrimaryKey = .int(1)) {
        self.className = className
        self.key = key
    }
}

/// A field of an object, or something inside the field.
package struct FieldPath: Sendable {
    /// An index of a list, or a name: a key of a dictionary, or a field of an embedded object.
    package enum Element: Sendable, ExpressibleByIntegerLiteral, ExpressibleByStringLiteral {
        case index(UInt32)
        case name(String)

        package init(integerLiteral value: UInt32) { self = .index(value) }
        package init(stringLiteral value: String) { self = .name(value) }
    }

    package var object: ObjectName
    package var field: String
    package var path: [Element]

    package init(object: ObjectName = ObjectName(), field: String, path: [Element] = []) {
        self.object = object
        self.field = field
        self.path = path
    }

    /// A field of A[1], or something inside it.
    package static func at(_ field: String, _ path: Element...) -> FieldPath { FieldPath(field: field, path: path) }

    /// An element of the list A[1].l.
    package static func item(_ index: UInt32) -> FieldPath { FieldPath(field: "l", path: [.index(index)]) }

    /// True if it ends in an element of a list.
    var isElement: Bool { if case .index = path.last { true } else { false } }

    func index(_ index: Int) -> FieldPath { appending(.index(UInt32(index))) }

    func name(_ name: String) -> FieldPath { appending(.name(name)) }

    private func appending(_ element: Element) -> FieldPath {
        FieldPath(object: object, field: field, path: path + [element])
    }
}

/// An instruction that gives classes, objects and fields by name, as generators and tests write it.
package enum NamedInstruction: Sendable {
    case addTable(String, TableType = .topLevel, key: String = "_id", PayloadType = .int, nullable: Bool = false)
    case eraseTable(String)
    case createObject(ObjectName = ObjectName())
    case eraseObject(ObjectName = ObjectName())
    /// `size` is written if the path ends in an element of a list, `isDefault` otherwise.
    case update(FieldPath, Payload, isDefault: Bool = false, size: UInt32 = 5)
    case addInteger(FieldPath, Int64)
    case addColumn(
        String, String, PayloadType = .int, nullable: Bool = false, CollectionType = .single, target: String = "B",
        keyType: PayloadType = .string)
    case eraseColumn(String, String)
    case insert(FieldPath, Payload = .int(0), size: UInt32 = 5)
    case move(FieldPath, to: UInt32, size: UInt32 = 5)
    case erase(FieldPath, size: UInt32 = 5)
    case clear(FieldPath, CollectionType = .list)
    case setInsert(FieldPath, Payload)
    case setErase(FieldPath, Payload)
}
