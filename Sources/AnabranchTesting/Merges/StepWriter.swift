import AnabranchCore

/// Writes steps as instructions of the current changeset.
struct StepWriter {
    typealias Content = ModelDocument.Content

    private static let depthMax = 6

    private let shape: RandomMerge.Shape
    private var writer = ChangesetWriter()
    private var random = SeededRandom(seed: 0)
    /// The deliberate errors of the current instruction, which are added to its size and to its index.
    private var damage = (size: 0, index: 0)
    /// The place after the element that was inserted or set last, or of the one that was erased last.
    private var latest = (object: 0, list: 0, index: 0)

    init(_ shape: RandomMerge.Shape) { self.shape = shape }

    mutating func takeChangeset() -> [UInt8] {
        defer { writer = ChangesetWriter() }
        return writer.bytes
    }

    mutating func write(_ step: RandomMerge.Step, on document: inout ModelDocument) {
        random = SeededRandom(seed: step.seed)
        var number = random.below(shape.objects)
        var list = random.below(shape.lists)
        if step.action.goesOn { (number, list) = (latest.object, latest.list) }
        if latest.object != number || latest.list != list { latest = (number, list, 0) }
        let isDamaged = shape.damagedOneIn.map { random.isOne(in: $0) } ?? false
        damage = isDamaged ? random.pick([(1, 0), (-1, 0), (0, 1), (0, 4)]) : (0, 0)
        let listPath = FieldPath(object: object(number), field: "list\(list)")
        switch step.action {
        case .insert, .erase, .move, .set, .addToElement, .clearList, .type, .delete, .setNext:
            editList(&document.objects[number].lists[list], at: listPath, step.action)
        case .below: goBelow(&document.objects[number].lists[list], at: listPath, depth: 0)
        case .setMixed:
            editMixed(&document.objects[number].mixed, at: FieldPath(object: object(number), field: "mixed"))
        case .setEntry:
            setEntry(
                &document.objects[number].dictionary, at: FieldPath(object: object(number), field: "dictionary"),
                depth: 0)
        case .clearDictionary:
            writer.write(.clear(FieldPath(object: object(number), field: "dictionary"), .dictionary))
            document.objects[number].dictionary = .newDictionary
        case .create, .eraseObject:
            let name = object(number)
            writer.write(step.action == .create ? .createObject(name) : .eraseObject(name))
            document.renewObject(number)
        case .setValue, .setCounter, .add, .setInsert, .setErase, .clearSet: editField(step.action, of: number)
        case .addTable, .eraseTable, .addColumn, .addLink, .eraseColumn: editSchema(step.action)
        }
    }

    // MARK: Lists

    private mutating func editList(_ content: inout Content, at path: FieldPath, _ action: RandomMerge.Step.Action) {
        guard case .list(var elements) = content else { return setContent(&content, at: path) }
        content = .value
        defer { content = .list(elements) }
        let size = elements.count
        switch size == 0 && action != .clearList ? .insert : action {
        case .erase, .delete:
            let index = action == .erase ? random.below(size) : min(latest.index, size - 1)
            writer.write(.erase(path.index(index + damage.index), size: stated(size)))
            elements.remove(at: index)
            latest.index = index
        case .move where size > 1:
            let index = random.below(size)
            // Sometimes the destination is where the element already is.
            let distance = random.below(16 * size)
            let destination = distance == 0 ? index : (index + max(1, distance % size)) % size
            writer.write(.move(path.index(index), to: UInt32(destination + damage.index), size: stated(size)))
            elements.insert(elements.remove(at: index), at: destination)
        case .set, .move, .setNext:
            let index = action == .setNext ? min(latest.index, size - 1) : random.below(size)
            let value = value()
            writer.write(.update(path.index(index + damage.index), value.payload, size: stated(size)))
            elements[index] = value.content
            latest.index = index + 1
        case .addToElement:
            let index = random.below(size)
            writer.write(.addInteger(path.index(index), Int64(random.below(9) - 4)))
        case .clearList:
            writer.write(.clear(path, .list))
            elements = []
        default:
            let index = action == .type ? min(latest.index, size) : insertionIndex(size)
            let value = value()
            writer.write(.insert(path.index(index + damage.index), value.payload, size: stated(size)))
            elements.insert(value.content, at: index)
            latest.index = index + 1
        }
    }

    /// An index to insert at, more often at the ends, where the insertions of both sides meet.
    private mutating func insertionIndex(_ size: Int) -> Int {
        switch random.below(10) {
        case 0, 1: 0
        case 2, 3: size
        default: random.upTo(size)
        }
    }

    private func stated(_ size: Int) -> UInt32 { UInt32(max(0, size + damage.size)) }

    // MARK: Inside containers

    /// Does something to an element of a list, or inside it.
    private mutating func goBelow(_ content: inout Content, at path: FieldPath, depth: Int) {
        guard case .list(var elements) = content, !elements.isEmpty else {
            return editList(&content, at: path, .insert)
        }
        let index = random.below(elements.count)
        guard case .value = elements[index] else {
            content = .value
            editInside(&elements[index], at: path.index(index + damage.index), depth: depth + 1)
            content = .list(elements)
            return
        }
        editList(&content, at: path, .set)
    }

    private mutating func editInside(_ content: inout Content, at path: FieldPath, depth: Int) {
        switch content {
        case .list:
            if depth < Self.depthMax, random.isOne(in: 3) {
                goBelow(&content, at: path, depth: depth)
            } else {
                editList(&content, at: path, random.pick([.insert, .insert, .erase, .set, .move, .clearList]))
            }
        case .dictionary: setEntry(&content, at: path, depth: depth)
        case .object(var list):
            if random.isOne(in: 2) {
                writer.write(.update(path.name("value"), scalar(), isDefault: random.isOne(in: 4)))
            } else {
                editList(&list, at: path.name("list"), random.pick([.insert, .erase, .set]))
                content = .object(list)
            }
        case .value: setContent(&content, at: path)
        }
    }

    private mutating func setEntry(_ content: inout Content, at path: FieldPath, depth: Int) {
        guard case .dictionary(var entries) = content else { return setContent(&content, at: path) }
        let number = random.below(entries.count)
        let entry = path.name("key\(number)")
        if case .value = entries[number] {
            setContent(&entries[number], at: entry)
        } else if depth < Self.depthMax, random.isOne(in: 2) {
            editInside(&entries[number], at: entry, depth: depth + 1)
        } else {
            setContent(&entries[number], at: entry)
        }
        content = .dictionary(entries)
    }

    private mutating func editMixed(_ content: inout Content, at path: FieldPath) {
        if case .value = content { return setContent(&content, at: path) }
        if random.isOne(in: 8) { return setContent(&content, at: path) }
        editInside(&content, at: path, depth: 0)
    }

    /// An Update of anything but an element of a list.
    private mutating func setContent(_ content: inout Content, at path: FieldPath) {
        let value =
            switch random.below(8) {
            case 0: Value.emptyList
            case 1: Value.dictionary
            case 2 where !path.path.isEmpty: Value(payload: .erased, content: .value)
            default: value()
            }
        writer.write(.update(path, value.payload, isDefault: random.isOne(in: 6)))
        content = value.content
    }

    // MARK: Fields and schema

    private mutating func editField(_ action: RandomMerge.Step.Action, of number: Int) {
        let object = object(number)
        let counter = FieldPath(object: object, field: "counter")
        let set = FieldPath(object: object, field: "set")
        switch action {
        case .add: writer.write(.addInteger(counter, Int64(random.below(200) - 100)))
        case .setCounter:
            let value = random.isOne(in: 8) ? Payload.null : .int(Int64(random.below(1000)))
            writer.write(.update(counter, value, isDefault: random.isOne(in: 4)))
        case .setInsert: writer.write(.setInsert(set, scalar()))
        case .setErase: writer.write(.setErase(set, scalar()))
        case .clearSet: writer.write(.clear(set, .set))
        default:
            let path = FieldPath(object: object, field: "value\(random.below(3))")
            writer.write(.update(path, scalar(), isDefault: random.isOne(in: 4)))
        }
    }

    private mutating func editSchema(_ action: RandomMerge.Step.Action) {
        let className = random.pick(["T", "T", "U", "V"])
        let field = random.pick(["list0", "value0", "value1", "added", "link"])
        switch action {
        case .addTable: writer.write(.addTable(className))
        case .eraseTable: writer.write(.eraseTable(className))
        case .addLink:
            let link = random.pick(["link", "link", "other"])
            writer.write(.addColumn(className, link, .link, nullable: true, target: random.pick(["T", "U", "V"])))
        case .eraseColumn: writer.write(.eraseColumn(className, field))
        default: writer.addColumn(className, field)
        }
    }

    private func object(_ number: Int) -> ObjectName {
        ObjectName(
            className: number < 3 ? "T" : "U", key: number == 1 ? .string(Array("one".utf8)) : .int(Int64(number)))
    }

    // MARK: Values

    /// A payload, and the content of its place afterwards.
    private struct Value: Sendable {
        static let emptyList = Value(payload: .list, content: .list([]))
        static let dictionary = Value(payload: .dictionary, content: .newDictionary)
        static let object = Value(payload: .objectValue, content: .object(.list([])))

        var payload: Payload
        var content: Content
    }

    /// A scalar, or sometimes a container, if the document has containers.
    private mutating func value() -> Value {
        guard let distance = shape.containersOneIn, random.isOne(in: distance) else {
            return Value(payload: scalar(), content: .value)
        }
        return random.pick([Value.emptyList, .dictionary, .object])
    }

    /// One of few values, so that those of both sides are often equal.
    private mutating func scalar() -> Payload {
        if shape.hasNaN, random.isOne(in: 10) { return .double(.nan) }
        guard shape.hasAllTypes else { return .int(Int64(random.below(8))) }
        let number = random.below(3)
        switch random.pick([0, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11]) {
        case 1: return .int(Int64(number))
        case 2: return .bool(number > 0)
        case 3: return .string(Array("text \(number)".utf8))
        case 4: return .binary(Array("text \(number)".utf8))
        case 5: return .timestamp(Timestamp(seconds: Int64(number), nanoseconds: 0))
        case 6: return .float(Float(bitPattern: UInt32(number) << 16))
        case 7: return .double(Double(bitPattern: UInt64(number) << 48))
        case 8: return .decimal(Decimal128(low: UInt64(number * 10), high: 0x303E_0000_0000_0000))
        case 9:
            let target = object(number)
            return .link(className: Array(target.className.utf8), key: target.key)
        case 10: return ObjectID(repeatElement(UInt8(number), count: 12)).map(Payload.objectID) ?? .null
        case 11: return UUIDBytes(repeatElement(UInt8(number), count: 16)).map(Payload.uuid) ?? .null
        default: return .null
        }
    }
}

extension RandomMerge.Step.Action {
    /// True if it works next to where the step before has worked.
    fileprivate var goesOn: Bool { self == .type || self == .delete || self == .setNext }
}
