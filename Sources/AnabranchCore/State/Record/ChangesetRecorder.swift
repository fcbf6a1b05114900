/// Writes instructions as a client records them: a string is defined just before the first instruction that needs it
/// (`Spec/Changeset.md`, sections 5.2 and 12), everything else as `ChangesetEncoder` writes it.
struct ChangesetRecorder {
    private var writer = ByteWriter()
    private var indices: [Name: UInt32] = [:]

    /// The changeset recorded so far.
    var bytes: [UInt8] { writer.bytes }

    /// The place that a path instruction names, beginning at a top-level object.
    struct Target {
        var className: [UInt8]
        var key: PrimaryKey
        var field: [UInt8]
        var path: [PathStep]
        /// The class of the innermost embedded object on the way: recording interns its name first, and unused.
        var embeddedClass: [UInt8]?
    }

    // MARK: Schema

    mutating func addClass(_ declared: ClassDeclaration) {
        let className = intern(declared.name)
        if declared.kind != .embedded { intern(declared.key?.name ?? []) }
        begin(.addTable, className)
        writer.write(small: declared.kind.rawValue)
        guard declared.kind != .embedded else { return }
        name(declared.key?.name ?? [])
        writer.write(declared.key?.type ?? .globalKey)
        writer.write(declared.key?.isNullable ?? false)
    }

    mutating func eraseClass(_ className: [UInt8]) {
        let className = intern(className)
        begin(.eraseTable, className)
    }

    /// The empty string is interned for a column that links to nothing, although nothing refers to it.
    mutating func addColumn(_ declared: ColumnDeclaration, to className: [UInt8]) {
        let className = intern(className)
        intern(declared.name)
        intern(declared.target ?? [])
        begin(.addColumn, className)
        name(declared.name)
        writer.write(declared.type)
        writer.write(declared.isNullable)
        writer.write(small: declared.collection.rawValue)
        if let target = declared.target { name(target) }
        if declared.collection == .dictionary { writer.write(declared.keyType) }
    }

    mutating func eraseColumn(_ field: [UInt8], of className: [UInt8]) {
        let (className, field) = (intern(className), intern(field))
        begin(.eraseColumn, className)
        writer.write(field)
    }

    // MARK: Objects

    mutating func createObject(_ className: [UInt8], _ key: PrimaryKey) { object(.createObject, className, key) }
    mutating func eraseObject(_ className: [UInt8], _ key: PrimaryKey) { object(.eraseObject, className, key) }

    private mutating func object(_ kind: InstructionKind, _ className: [UInt8], _ key: PrimaryKey) {
        let className = intern(className)
        intern(key)
        begin(kind, className)
        self.key(key)
    }

    // MARK: Places

    /// - Parameters:
    ///   - isDefault: Of an update: the value was set as a default of a new object.
    ///   - priorSize: Of an update of a list element: the size of the list.
    mutating func edit(_ edit: Edit, at target: Target, isDefault: Bool = false, priorSize: Int? = nil) {
        let (className, field) = internNames(of: edit, at: target)
        begin(edit.kind, className)
        key(target.key)
        writer.write(field)
        path(target.path)
        switch edit {
        case .update(let payload):
            value(payload)
            if let priorSize {
                size(priorSize)
            } else {
                writer.write(isDefault)
            }
        case .addInteger(let amount): writer.write(amount)
        case .insert(let payload, let priorSize):
            value(payload)
            size(priorSize)
        case .move(let destination, let priorSize):
            size(destination)
            size(priorSize)
        case .erase(let priorSize): size(priorSize)
        case .clear(let kind): writer.write(small: kind.rawValue)
        case .setInsert(let payload), .setErase(let payload): value(payload)
        }
    }

    /// - Returns: the indices of the class and the field.
    private mutating func internNames(of edit: Edit, at target: Target) -> (className: UInt32, field: UInt32) {
        if let embeddedClass = target.embeddedClass { intern(embeddedClass) }
        let className = intern(target.className)
        intern(target.key)
        let field = intern(target.field)
        for case .name(let name) in target.path { intern(name) }
        if case .link(let linkedClass, let key)? = edit.payload {
            intern(linkedClass)
            intern(key)
        }
        return (className, field)
    }

    // MARK: Operands

    private mutating func begin(_ kind: InstructionKind, _ className: UInt32) {
        writer.write(small: kind.rawValue)
        writer.write(className)
    }

    /// - Returns: the index of the string.
    @discardableResult
    private mutating func intern(_ bytes: [UInt8]) -> UInt32 {
        let name = Name(bytes)
        if let index = indices[name] { return index }
        let index = UInt32(truncatingIfNeeded: indices.count)
        indices[name] = index
        writer.write(small: 63)
        writer.write(index)
        writer.write(counted: bytes)
        return index
    }

    private mutating func intern(_ key: PrimaryKey) {
        if case .string(let text) = key { intern(text) }
    }

    /// Writes the index of a string that was interned before.
    private mutating func name(_ name: [UInt8]) { writer.write(indices[Name(name)] ?? 0) }

    private mutating func size(_ value: Int) { writer.write(UInt32(truncatingIfNeeded: value)) }

    private mutating func key(_ key: PrimaryKey) {
        writer.write(key.type)
        switch key {
        case .null: break
        case .int(let value): writer.write(value)
        case .string(let text): name(text)
        case .globalKey(let value):
            writer.write(value.high)
            writer.write(value.low)
        case .objectID(let value): writer.write(raw: value.bytes)
        case .uuid(let value): writer.write(raw: value.bytes)
        }
    }

    private mutating func path(_ steps: [PathStep]) {
        size(steps.count)
        for step in steps {
            switch step {
            case .index(let index): size(index)
            case .name(let name):
                writer.write(Int64(-1))
                self.name(name)
            }
        }
    }

    private mutating func value(_ payload: Payload) {
        writer.write(payload.type)
        switch payload {
        case .null, .objectValue, .dictionary, .list, .set, .erased: break
        case .int(let value): writer.write(value)
        case .bool(let value): writer.write(value)
        case .string(let bytes), .binary(let bytes): writer.write(counted: bytes)
        case .timestamp(let value):
            writer.write(value.seconds)
            writer.write(Int64(value.nanoseconds))
        case .float(let value): writer.write(littleEndian: UInt64(value.bitPattern), count: 4)
        case .double(let value): writer.write(littleEndian: value.bitPattern, count: 8)
        case .decimal(let value):
            let (low, high) = value.coefficient
            writer.write(coefficientLow: low, high: high)
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

extension Edit {
    var kind: InstructionKind {
        switch self {
        case .update: .update
        case .addInteger: .addInteger
        case .insert: .arrayInsert
        case .move: .arrayMove
        case .erase: .arrayErase
        case .clear: .clear
        case .setInsert: .setInsert
        case .setErase: .setErase
        }
    }

    var payload: Payload? {
        switch self {
        case .update(let payload), .insert(let payload, _), .setInsert(let payload), .setErase(let payload): payload
        case .addInteger, .move, .erase, .clear: nil
        }
    }
}

/// A string with its hash, which is not computed again when a table of many long ones grows.
private struct Name: Hashable {
    private let bytes: [UInt8]
    private let hash: Int

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        // Not `hashValue`, which takes the bytes one by one.
        var hasher = Hasher()
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
        hash = hasher.finalize()
    }

    static func == (left: Name, right: Name) -> Bool { left.hash == right.hash && left.bytes == right.bytes }

    func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}
