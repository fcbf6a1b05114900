package import AnabranchCore

/// The places that the changes of one round go to: the fewer places, the more changes meet.
package struct HotSpot {
    let keyCount: Int
    /// True if links are overwritten, and their targets erased, more often than anything else happens.
    let isOfLinks: Bool
    private let fields: [String: [FieldShape]]

    package init(_ random: inout SeededRandom) {
        let fieldCount = random.pick([1, 2, 4, 8, .max])
        keyCount = random.pick([1, 2, 4])
        isOfLinks = random.isOne(in: 4)
        var fields: [String: [FieldShape]] = [:]
        for shape in RandomSchema.classes {
            fields[shape.name] = Array(shape.fields.shuffled(using: &random).prefix(fieldCount))
        }
        self.fields = fields
    }

    func fields(of shape: ClassShape) -> [FieldShape] { fields[shape.name] ?? shape.fields }
}

/// Makes one random change of the random world through the recorder. It never makes a place of a Mixed the kind of
/// collection that it is already (`KnownDivergence.collectionMadeTwice`).
package struct RandomEditor {
    private static let depthMax = 3
    private static let longListMin = 10

    private let transaction: WriteTransaction
    private let hotSpot: HotSpot
    private var random: SeededRandom

    package init(_ transaction: WriteTransaction, on hotSpot: HotSpot, seed: UInt64) {
        self.transaction = transaction
        self.hotSpot = hotSpot
        random = SeededRandom(seed: seed)
    }

    package mutating func edit() throws {
        if hotSpot.isOfLinks, random.isOne(in: 3) { return try linkAnew() }
        switch random.below(40) {
        case 0: try deleteObject()
        case 1: try createEvent()
        case 2, 3: try editSchema()
        default: try editObject()
        }
    }

    // MARK: Objects

    private mutating func editObject() throws {
        let shape = random.pick([
            RandomSchema.task, RandomSchema.task, RandomSchema.task, RandomSchema.note, RandomSchema.log,
            RandomSchema.passing,
        ])
        let object = try findOrCreate(shape)
        try edit(object, shape, depth: 0)
    }

    private mutating func findOrCreate(_ shape: ClassShape) throws -> DynamicObject {
        guard let key = key(of: shape) else {
            let objects = try transaction.objects(shape.name)
            if objects.isEmpty || random.isOne(in: 12) { return try transaction.create(shape.name) }
            return random.pick(objects)
        }
        if let object = try transaction.object(shape.name, key: key), !random.isOne(in: 40) { return object }
        return try transaction.create(
            shape.name, key: key, try initialValues(of: shape), areDefaults: random.isOne(in: 2))
    }

    /// The key of the object to edit; nil for any object, always where the recorder issues the keys.
    private mutating func key(of shape: ClassShape) -> PrimaryKey? {
        guard case .keyed(_, let type, _) = shape.kind else { return nil }
        if type == .int { return .int(Int64(random.below(hotSpot.keyCount))) }
        return random.pick([nil, "", "a", "b", "cc"])
    }

    private mutating func initialValues(of shape: ClassShape) throws -> [String: Payload] {
        var values: [String: Payload] = [:]
        for field in shape.fields where field.collection == .single && field.target == nil && random.isOne(in: 4) {
            values[field.name] = try value(of: field)
        }
        return values
    }

    private mutating func deleteObject() throws {
        let shape = random.pick([
            RandomSchema.task, RandomSchema.task, RandomSchema.note, RandomSchema.log, RandomSchema.passing,
        ])
        if random.isOne(in: 8) { return try transaction.deleteAll(shape.name) }
        let objects = try transaction.objects(shape.name)
        if !objects.isEmpty { try transaction.delete(random.pick(objects)) }
    }

    private mutating func createEvent() throws {
        guard let key = UUIDBytes(repeatElement(UInt8(random.below(200)), count: 16)) else { return }
        try transaction.create(RandomSchema.event.name, key: .uuid(key), ["what": text()])
    }

    /// Overwrites links in a list of Mixed, or erases the target of one.
    private mutating func linkAnew() throws {
        let targets = try transaction.objects(RandomSchema.note.name)
        guard !targets.isEmpty else {
            try transaction.create(RandomSchema.note.name, key: "a")
            return
        }
        if random.isOne(in: 4) { return try transaction.delete(random.pick(targets)) }
        for field in RandomSchema.task.fields where field.collection == .list && field.type == .null {
            let list = try findOrCreate(RandomSchema.task).list(field.name), link = random.pick(targets).link
            try list.count == 0 ? list.append(link) : list.set(link, at: 0)
        }
    }

    // MARK: Schema

    private mutating func editSchema() throws {
        let shape = random.pick([
            RandomSchema.task, RandomSchema.task, RandomSchema.task, RandomSchema.part, RandomSchema.passing,
        ])
        if shape.name == RandomSchema.passing.name {
            return random.isOne(in: 3) ? try transaction.eraseClass(shape.name) : try addPassingClass()
        }
        let field = random.pick(shape.passingFields)
        if random.isOne(in: 3) { return try transaction.eraseColumn(field.name, of: shape.name) }
        try transaction.add(field, to: shape.name)
    }

    private func addPassingClass() throws {
        try transaction.add(RandomSchema.passing)
        for field in RandomSchema.passing.fields { try transaction.add(field, to: RandomSchema.passing.name) }
    }

    // MARK: Fields

    private mutating func edit(_ object: DynamicObject, _ shape: ClassShape, depth: Int) throws {
        let isPassing = !shape.passingFields.isEmpty && random.isOne(in: 8)
        let field = random.pick(isPassing ? shape.passingFields : hotSpot.fields(of: shape))
        switch field.collection {
        case .list: try edit(try object.list(field.name), field.element, depth: depth)
        case .set: try edit(try object.set(field.name), field.element)
        case .dictionary: try edit(try object.dictionary(field.name), field.element, depth: depth)
        case .single: try edit(object, field, depth: depth)
        }
    }

    private mutating func edit(_ object: DynamicObject, _ field: FieldShape, depth: Int) throws {
        let current = try object.value(field.name)
        if field.target == RandomSchema.part.name {
            guard let inner = try object.object(field.name), !random.isOne(in: 8) else {
                return current == .null || random.isOne(in: 2)
                    ? _ = try object.createObject(field.name) : try object.set(field.name, to: .null)
            }
            guard depth < Self.depthMax else { return }
            return try edit(inner, RandomSchema.part, depth: depth + 1)
        }
        if case .int = current, random.isOne(in: 2) {
            return try object.add(Int64(random.below(20) - 10), to: field.name)
        }
        guard field.type == .null else { return try object.set(field.name, to: try value(of: field)) }
        switch current {
        case .list where goesInside(depth): try edit(try object.list(field.name), field, depth: depth + 1)
        case .dictionary where goesInside(depth): try edit(try object.dictionary(field.name), field, depth: depth + 1)
        default: try object.set(field.name, to: try mixed(insteadOf: current, depth: depth))
        }
    }

    private mutating func goesInside(_ depth: Int) -> Bool { depth < Self.depthMax && !random.isOne(in: 6) }

    // MARK: Lists

    private mutating func edit(_ list: DynamicList, _ element: FieldShape, depth: Int) throws {
        let count = try list.count
        let isEmbedded = element.target == RandomSchema.part.name
        switch count == 0 ? 0 : random.below(count < Self.longListMin ? 16 : 20) {
        case 0...5:
            let index = random.isOne(in: 3) ? count : random.upTo(count)
            if isEmbedded { return _ = try list.insertObject(at: index) }
            if let value = try elementValue(element, depth: depth) { try list.insert(value, at: index) }
        case 6, 7: try list.move(from: random.below(count), to: random.below(count))
        case 8: if random.isOne(in: 4) { try list.removeAll() } else { try list.remove(at: random.below(count)) }
        case 9: try list.swapAt(random.below(count), random.below(count))
        case 10...15: try editElement(at: random.below(count), of: list, element, depth: depth)
        default: try list.remove(at: random.below(count))
        }
    }

    private mutating func editElement(
        at index: Int, of list: DynamicList, _ element: FieldShape, depth: Int
    ) throws {
        let current = try list.value(at: index)
        switch current {
        case .objectValue where goesInside(depth):
            try edit(try list.object(at: index), RandomSchema.part, depth: depth + 1)
        case .list where goesInside(depth): try edit(try list.list(at: index), element, depth: depth + 1)
        case .dictionary where goesInside(depth): try edit(try list.dictionary(at: index), element, depth: depth + 1)
        case .objectValue: try list.set(.objectValue, at: index)
        default:
            if element.type == .null {
                try list.set(try mixed(insteadOf: current, depth: depth), at: index)
            } else if let value = try elementValue(element, depth: depth) {
                try list.set(value, at: index)
            }
        }
    }

    /// A value for an element of a collection; nil for a link where there is nothing to link to.
    private mutating func elementValue(_ element: FieldShape, depth: Int) throws -> Payload? {
        if element.type == .null { return try mixed(insteadOf: .null, depth: depth) }
        let value = try value(of: element)
        return element.type == .link && value == .null ? nil : value
    }

    // MARK: Sets and dictionaries

    private mutating func edit(_ set: DynamicSet, _ element: FieldShape) throws {
        switch random.below(12) {
        case 0: try set.removeAll()
        case 1: try set.formSymmetricDifference(try setValues(2, of: element))
        case 2: try set.formIntersection(try setValues(3, of: element))
        case 3...6: try set.subtract(try setValues(1, of: element))
        default: try set.formUnion(try setValues(1, of: element))
        }
    }

    private mutating func setValues(_ count: Int, of element: FieldShape) throws -> [Payload] {
        var values: [Payload] = []
        for _ in 0..<count {
            let value = try value(of: element)
            if element.type == .null || element.isNullable || value != .null { values.append(value) }
        }
        return values
    }

    private mutating func edit(_ dictionary: DynamicDictionary, _ element: FieldShape, depth: Int) throws {
        let key = random.pick(["k1", "k2", "k3", ""])
        if random.isOne(in: 16) { return try dictionary.removeAll() }
        if random.isOne(in: 6) { return try dictionary.remove(key) }
        let current = try dictionary.value(for: key)
        switch current {
        case .objectValue? where goesInside(depth):
            guard let object = try dictionary.object(for: key) else { return }
            try edit(object, RandomSchema.part, depth: depth + 1)
        case .list? where goesInside(depth): try edit(try dictionary.list(for: key), element, depth: depth + 1)
        case .dictionary? where goesInside(depth):
            try edit(try dictionary.dictionary(for: key), element, depth: depth + 1)
        default:
            if element.target == RandomSchema.part.name {
                try dictionary.set(random.isOne(in: 4) ? .null : .objectValue, for: key)
            } else if element.type == .null {
                try dictionary.set(try mixed(insteadOf: current ?? .null, depth: depth), for: key)
            } else {
                try dictionary.set(try value(of: element), for: key)
            }
        }
    }

    // MARK: Values

    /// A value for a Mixed: scalars, links, and collections unless one of the kind is there.
    private mutating func mixed(insteadOf current: Payload, depth: Int) throws -> Payload {
        switch random.below(6) {
        case 0 where depth < Self.depthMax && current != .list: .list
        case 1 where depth < Self.depthMax && current != .dictionary: .dictionary
        default: try value(of: FieldShape(name: "", type: .null))
        }
    }

    /// One of few values, so that those of different replicas are often equal. Numbers are sums of powers of two:
    /// equality is transitive among them (`Spec/State.md`, A7).
    private mutating func value(of field: FieldShape) throws -> Payload {
        if field.isNullable, random.isOne(in: 5) { return .null }
        let number = random.below(4)
        switch field.type {
        case .int: return .int(random.isOne(in: 20) ? .max - Int64(number) : Int64(number))
        case .bool: return .bool(number > 1)
        case .string: return text()
        case .binary: return .binary(Array(repeating: 7, count: number))
        case .timestamp: return .timestamp(Timestamp(seconds: Int64(number), nanoseconds: Int32(number)))
        case .float: return .float(random.pick([-0.0, 0, 0.5, 1, .nan]))
        case .double: return .double(random.pick([-0.0, 0, 0.5, 1, .infinity]))
        case .decimal: return .decimal(random.pick(Self.decimals))
        case .objectID: return ObjectID(repeatElement(UInt8(number), count: 12)).map(Payload.objectID) ?? .null
        case .uuid: return UUIDBytes(repeatElement(UInt8(number), count: 16)).map(Payload.uuid) ?? .null
        case .link: return try link(to: field.target ?? RandomSchema.task.name)
        default:
            let scalar = random.pick([
                PayloadType.null, .int, .int, .bool, .string, .string, .binary, .timestamp, .float, .double, .decimal,
                .objectID, .uuid, .link, .link,
            ])
            guard scalar != .link else {
                let target =
                    random.isOne(in: 12)
                    ? RandomSchema.passing : random.pick([RandomSchema.task, RandomSchema.note, RandomSchema.log])
                return try link(to: target.name)
            }
            return scalar == .null ? .null : try value(of: FieldShape(name: "", type: scalar))
        }
    }

    private mutating func text() -> Payload { .string(Array(random.pick(["", "a", "b", "cc", "ddd"]).utf8)) }

    private mutating func link(to className: String) throws -> Payload {
        let objects = try transaction.objects(className)
        return objects.isEmpty ? .null : random.pick(objects).link
    }

    /// 0, 1, 1.0, 5 × 10^-1, -3.
    private static let decimals = [
        Decimal128(low: 0, high: 0x3040_0000_0000_0000), Decimal128(low: 1, high: 0x3040_0000_0000_0000),
        Decimal128(low: 10, high: 0x303E_0000_0000_0000), Decimal128(low: 5, high: 0x303E_0000_0000_0000),
        Decimal128(low: 3, high: 0xB040_0000_0000_0000),
    ]
}
