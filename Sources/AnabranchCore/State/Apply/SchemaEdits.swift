// The effect of AddTable, EraseTable, AddColumn and EraseColumn (`Spec/State.md`, B3).

/// The class that an AddTable declares; `key` is nil for an embedded class and for objects with GlobalKeys.
struct ClassDeclaration {
    /// The longest class name, in bytes: with the prefix of its table it has 63 at most.
    static let nameBytesMax = 57

    var name: [UInt8]
    var kind: TableType
    var key: ClassState.KeyColumn?
}

/// The column that an AddColumn declares.
struct ColumnDeclaration {
    /// The longest column name that clients can store, in bytes, also for a primary key.
    static let nameBytesMax = 63

    static func takes(_ name: [UInt8]) -> Bool { name.count <= nameBytesMax }

    var name: [UInt8]
    var type: PayloadType
    var isNullable: Bool
    var collection: CollectionType
    /// The class linked to; nil for a column that is not of links.
    var target: [UInt8]?
    /// The type of the keys of a dictionary.
    var keyType = PayloadType.string
}

extension GraphEditor {
    mutating func addClass(_ declared: ClassDeclaration) throws(ApplyError) -> Effect {
        guard let present = schema.number(of: declared.name).map({ schema[$0] }) else {
            guard declared.name.count <= ClassDeclaration.nameBytesMax else { throw .invalid("the name is too long") }
            guard declared.key.map({ ColumnDeclaration.takes($0.name) }) ?? true else {
                throw .rejected("the name of the primary key is too long")
            }
            guard schema.classes.count < Schema.classCountMax else {
                throw .invalid("there have been too many classes")
            }
            graph.schema.add(ClassState(name: declared.name, kind: declared.kind, key: declared.key))
            graph.objects.append(CountedTree())
            changes.isSchemaChanged = true
            return .applied
        }
        if declared.kind == .embedded {
            guard present.kind == .embedded else { throw .invalid("the class exists and is not embedded") }
            return .ignored
        }
        // Without a primary key nothing is compared, and the type of a key never is.
        guard let key = declared.key else { return .ignored }
        guard present.kind == declared.kind, let presentKey = present.key, presentKey.name == key.name,
            presentKey.isNullable == key.isNullable
        else { throw .invalid("the class exists and is different") }
        return .ignored
    }

    mutating func eraseClass(_ name: [UInt8]) throws(ApplyError) -> Effect {
        flush()
        let number = try classID(name)
        for linking in schema[number].linkingColumns where linking.owner != number {
            guard let column = schema.column(of: linking), column.place.target == number else { continue }
            throw .rejected(
                "\(String(excerptOf: schema[linking.owner].name))."
                    + "\(String(excerptOf: column.name)) links to the class")
        }
        guard schema[number].mixedLinkers.isEmpty else {
            throw .rejected("a Mixed of another class has linked to the class")
        }
        try countErasure(ofObjectsOf: number)
        graph.schema.erase(number)
        graph.objects[Int(number.rawValue) - 1].removeAll()
        changes.isSchemaChanged = true
        changes.erasesValues = true
        changes.erasedClasses.append(number)
        return .applied
    }

    mutating func addColumn(_ declared: ColumnDeclaration, to className: [UInt8]) throws(ApplyError) -> Effect {
        let number = try classID(className)
        if schema[number].isKey(declared.name) {
            guard declared.type == schema[number].key?.type, declared.collection == .single else {
                throw .invalid("the primary key has this name")
            }
            return .ignored
        }
        if let present = schema[number].place(of: declared.name) {
            let target = present.type == .link ? schema[present.target].name : nil
            guard present.type == declared.type, present.collection == declared.collection, target == declared.target
            else { throw .invalid("the column exists and is different") }
            return .ignored
        }
        let place = try self.place(of: declared, in: number)
        guard place.slot < ClassState.slotCountMax, schema.slotCount < Schema.slotCountMax else {
            throw .invalid("there have been too many columns")
        }
        graph.schema.add(Column(name: declared.name, place: place), to: number)
        if place.type == .link { graph.schema[place.target].add(Schema.LinkingColumn(owner: number, slot: place.slot)) }
        changes.isSchemaChanged = true
        return .applied
    }

    private func place(of declared: ColumnDeclaration, in owner: ClassID) throws(ApplyError) -> Place {
        guard declared.type.isColumnType else { throw .undefined("a column cannot be of type \(declared.type)") }
        guard declared.collection != .dictionary || declared.keyType == .string else {
            throw .invalid("a dictionary with keys of type \(declared.keyType)")
        }
        guard ColumnDeclaration.takes(declared.name) else { throw .rejected("the name is too long") }
        var place = Place(
            owner: owner, slot: schema[owner].columns.count, type: declared.type,
            isNullable: declared.isNullable || declared.type == .null, collection: declared.collection)
        guard let name = declared.target else { return place }
        guard !name.isEmpty else { throw .rejected("a link column without a class") }
        guard let target = schema.number(of: name) else { throw .invalid("the class linked to does not exist") }
        let kind = schema[target].kind
        guard kind != .topLevelAsymmetric else { throw .rejected("a link to an asymmetric class") }
        guard kind != .embedded || declared.collection != .set else { throw .rejected("a set of embedded objects") }
        place.isNullable = declared.collection == .single || declared.collection == .dictionary
        place.target = target
        place.isEmbedded = kind == .embedded
        return place
    }

    mutating func eraseColumn(_ name: [UInt8], of className: [UInt8]) throws(ApplyError) -> Effect {
        flush()
        let number = try classID(className)
        guard !schema[number].isKey(name) else { throw .invalid("the primary key cannot be erased") }
        guard let slot = schema[number].place(of: name)?.slot else { throw .invalid("no such field") }
        graph.schema.eraseColumn(at: slot, of: number)
        changes.isSchemaChanged = true
        changes.erasesValues = true
        return .applied
    }
}
