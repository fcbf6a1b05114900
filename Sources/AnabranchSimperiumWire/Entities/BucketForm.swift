import AnabranchCore

/// How the entities of a bucket lie in objects (`Spec/Simperium.md`, section 7).
package enum BucketForm: UInt8, CaseIterable, Sendable {
    /// `body`, a dictionary of Mixed, for values, and `nested`, a dictionary of String, for objects and lists as JSON.
    case flat = 1
    /// `body`, a dictionary of Mixed with nested lists and dictionaries.
    case deep
    /// A class that the app has: its properties are the members.
    case typed

    /// The name of the form in a configuration.
    package var name: String {
        switch self {
        case .flat: "flat"
        case .deep: "deep"
        case .typed: "typed"
        }
    }

    static let key = "id", body = "body", nested = "nested"

    /// Adds the class of a bucket of this form; nothing if it is there, or the app makes it.
    func addClass(_ name: String, _ transaction: WriteTransaction) throws(ApplyError) {
        guard self != .typed else { return }
        try transaction.addClass(name, key: Self.key, .string)
        try transaction.addColumn(Self.body, .null, collection: .dictionary, to: name)
        if self == .flat { try transaction.addColumn(Self.nested, .string, collection: .dictionary, to: name) }
    }

    /// The form that the objects of a class have by its properties; nil if it is not a class of a bucket.
    init?(of schema: ClassSchema) {
        guard schema.kind == .topLevel, let key = schema.key, key.type == .string, !key.isNullable,
            schema.isDictionary(Self.body, of: .null)
        else { return nil }
        self = schema.isDictionary(Self.nested, of: .string) ? .flat : .deep
    }

    /// The form that a bucket has whose class is there before it; nil if the class is none for it.
    fileprivate init?(of schema: ClassSchema, _ wanted: BucketForm) {
        if wanted == .typed {
            guard Self.problem(with: schema) == nil else { return nil }
            self = .typed
        } else {
            self.init(of: schema)
        }
    }

    /// The reason why a class cannot be that of a bucket of the form `typed`; nil if it can.
    static func problem(with schema: ClassSchema?) -> String? {
        guard let schema else { return "the class does not exist: a client of Realm's wire has to make it" }
        guard schema.kind == .topLevel else { return "its objects are embedded or asymmetric" }
        guard let key = schema.key else { return "the class has no primary key, which has to be a String" }
        guard key.type == .string else {
            return "the primary key \(String(excerptOf: key.name)) is of the type \(key.type), not String"
        }
        return nil
    }
}

extension ObjectGraph {
    /// The class of a bucket of which there is no record: others have made it, or the records are lost.
    func bucketClass(_ name: String, _ wanted: BucketForm) -> (name: [UInt8], form: BucketForm)? {
        for className in BucketName.classNames(name) {
            guard let schema = schema(ofClass: Array(className.utf8)) else { continue }
            if let form = BucketForm(of: schema, wanted) { return (schema.name, form) }
        }
        return nil
    }
}

/// The reason why a bucket cannot be opened.
struct BucketProblem: Error {
    let reason: String
}

extension ClassSchema {
    fileprivate func isDictionary(_ name: String, of type: PayloadType) -> Bool {
        property(named: Array(name.utf8)).map { $0.collection == .dictionary && $0.type == type } ?? false
    }
}

/// The keys of dictionaries do not begin with `$` and have no point, so the names of members are escaped.
enum MemberName {
    static func escaped(_ name: String) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(name.utf8.count)
        for (index, byte) in name.utf8.enumerated() {
            switch byte {
            case UInt8(ascii: "%"), UInt8(ascii: "."): bytes += Array("%".utf8) + Array(digits(of: byte).utf8)
            case UInt8(ascii: "$") where index == 0: bytes += Array("%24".utf8)
            default: bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func digits(of byte: UInt8) -> String { byte == UInt8(ascii: "%") ? "25" : "2E" }

    /// The name that a key stands for. A key that no name is escaped to stands for itself.
    static func unescaped(_ key: [UInt8]) -> String {
        let name = String(decoding: key, as: UTF8.self)
        guard key.contains(UInt8(ascii: "%")), let bytes = Hex.percentDecoded(key),
            let decoded = String(validating: bytes, as: UTF8.self), escaped(decoded).utf8.elementsEqual(key)
        else { return name }
        return decoded
    }

    /// The key of an entry: what a name is escaped to, or the name as it is if a client of Realm's wire has written
    /// that. If there are both, the latter goes.
    static func key(_ name: String, in dictionary: DynamicDictionary) throws(ApplyError) -> String {
        let key = escaped(name)
        guard !key.hasBytes(of: name), unescaped(Array(name.utf8)).hasBytes(of: name),
            try dictionary.value(for: name) != nil
        else { return key }
        guard try dictionary.value(for: key) != nil else { return name }
        try dictionary.remove(name)
        return key
    }
}
