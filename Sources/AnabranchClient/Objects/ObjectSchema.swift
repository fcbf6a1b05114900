import AnabranchCore
import Synchronization

/// The declaration of a type: the class, and its properties in their order. It is determined once for each type, by
/// having the type decode itself (`SampleDecoder`).
final class ObjectSchema: Sendable {
    /// A property.
    struct Field: Sendable {
        let name: String
        let bytes: [UInt8]
        let shape: _ValueShape
        let codec: FieldCodec
    }

    /// The name of the type, for messages.
    let typeName: String
    let className: String
    let classBytes: [UInt8]
    let isEmbedded: Bool
    let isAsymmetric: Bool
    let fields: [Field]
    let indices: [String: Int]
    /// The index of the primary key in `fields`; nil for an embedded class.
    let key: Int?
    /// The indices of the indexed properties in `fields`.
    let indexed: [Int]
    /// Sample values of the type, which tell its key paths apart: property i of sample number p is the second one of
    /// its type if bit p of `code(of: i)` is set, and else the first one.
    private let samples: [any Sendable]
    /// Makes the object that has the values of properties that are added later.
    private let makeDefaults: @Sendable () -> (any Encodable)?
    private let keyPaths = Mutex<[KnownKeyPath: Int]>([:])

    // MARK: Finding out

    private static let known = Mutex<[ObjectIdentifier: ObjectSchema]>([:])

    static func of<Object: SyncedObject>(_ type: Object.Type) throws(ObjectError) -> ObjectSchema {
        try of(type) { () throws(ObjectError) in try ObjectSchema(object: type) }
    }

    static func of<Object: EmbeddedObject>(_ type: Object.Type) throws(ObjectError) -> ObjectSchema {
        try of(type) { () throws(ObjectError) in
            ObjectSchema(try SampledType(type), type, Object.className, key: nil, indexed: [])
        }
    }

    private static func of(
        _ type: Any.Type, _ make: () throws(ObjectError) -> ObjectSchema
    ) throws(ObjectError) -> ObjectSchema {
        let identifier = ObjectIdentifier(type)
        if let schema = known.withLock({ $0[identifier] }) { return schema }
        let schema = try make()
        // Two threads may have made it at the same time: the first one stays.
        return known.withLock { known in
            known[identifier] = known[identifier] ?? schema
            return known[identifier] ?? schema
        }
    }

    private convenience init<Object: SyncedObject>(object type: Object.Type) throws(ObjectError) {
        let sampled = try SampledType(type)
        let names = ObjectSchema(sampled, type, Object.className, key: nil, indexed: [])
        let key = try names.index(of: \Object.id)
        var indexed: [Int] = []
        for keyPath in Object.indexed {
            let field = try names.index(of: keyPath), shape = names.fields[field].shape
            guard shape.collection == .single, shape.type.isIndexable else {
                throw ObjectError(
                    .badClass, "\(type).\(names.fields[field].name) cannot be indexed: it is \(shape.description)")
            }
            if field != key { indexed.append(field) }
        }
        self.init(sampled, type, Object.className, key: key, indexed: indexed, isAsymmetric: Object.isAsymmetric) {
            Object.defaults
        }
    }

    private init(
        _ sampled: SampledType, _ type: Any.Type, _ className: String, key: Int?, indexed: [Int],
        isAsymmetric: Bool = false, defaults: @escaping @Sendable () -> (any Encodable)? = { nil }
    ) {
        typeName = "\(type)"
        self.className = className
        classBytes = Array(className.utf8)
        isEmbedded = type is any EmbeddedObject.Type
        self.isAsymmetric = isAsymmetric
        fields = sampled.fields
        indices = Dictionary(uniqueKeysWithValues: fields.enumerated().map { ($1.name, $0) })
        self.key = key
        self.indexed = indexed
        samples = sampled.samples
        makeDefaults = defaults
    }

    // MARK: Key paths

    /// The samples of property i: bit p is set if sample number p has the second value there. The lowest bit is always
    /// set, so that a property that is computed as the contrary of another one is not taken for that one.
    static func code(of index: Int) -> Int { index << 1 | 1 }

    /// The property that a key path leads to.
    /// - Throws: `ObjectError` with the code `badQuery` if it leads to none that is stored.
    func index<Object>(of keyPath: PartialKeyPath<Object>) throws(ObjectError) -> Int {
        let known = KnownKeyPath(keyPath: keyPath)
        if let index = keyPaths.withLock({ $0[known] }) { return index }
        let values = samples.compactMap { $0 as? Object }.map { $0[keyPath: keyPath] }
        let found = fields.indices.filter { index in
            fields[index].codec.isType(type(of: keyPath).valueType)
                && zip(values.indices, values).allSatisfy { sample, value in
                    fields[index].codec.isSample(value, isSecond: Self.code(of: index) >> sample & 1 == 1)
                }
        }
        guard let index = found.first, found.count == 1 else {
            throw ObjectError(
                .badQuery,
                found.isEmpty
                    ? "\(keyPath) leads to no property that is stored"
                    : "\(keyPath) may be any of \(found.map { fields[$0].name }): their type has one value only")
        }
        keyPaths.withLock { $0[known] = index }
        return index
    }

    func field<Object>(_ keyPath: PartialKeyPath<Object>) throws(ObjectError) -> Field {
        fields[try index(of: keyPath)]
    }

    // MARK: Values

    /// The values that existing objects get in properties that are added; nil if the type declares none.
    func defaults() throws(ObjectError) -> [_ValueContent]? {
        guard let object = makeDefaults() else { return nil }
        return try contents(of: object)
    }

    /// The values of an object, by property.
    func contents(of object: some Encodable) throws(ObjectError) -> [_ValueContent] {
        let encoder = ContentEncoder(of: self)
        do {
            try object.encode(to: encoder)
        } catch let error as ObjectError {
            throw error
        } catch {
            throw ObjectError(.badValue, "\(typeName): \(error)")
        }
        return encoder.written.contents
    }
}

/// A key path that was looked up. It is only compared and hashed on other threads.
private struct KnownKeyPath: Hashable, @unchecked Sendable {
    let keyPath: AnyKeyPath
}

extension ObjectSchema: Hashable {
    static func == (left: ObjectSchema, right: ObjectSchema) -> Bool { left === right }

    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

extension PayloadType {
    /// True if equal values of the type are identical, so that they can be looked up.
    var isIndexable: Bool {
        switch self {
        case .int, .bool, .string, .timestamp, .objectID, .uuid: true
        default: false
        }
    }
}
