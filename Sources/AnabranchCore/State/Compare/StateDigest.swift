/// A 128-bit fingerprint of a state (`Spec/State.md`, E4): equal states have equal digests on every machine, and
/// different ones differ but for chance. A fixed function without secrets: it detects divergence, not forgery.
///
/// Numbers are compared by value (`Spec/State.md`, B5 and A7): zeros of both signs, equal decimals, and in sets equal
/// numbers of all kinds are the same. Dangling links count as the links that they are. It is the sum of the
/// fingerprints of its objects and of its schema, so it follows changes at the cost of what changed.
public struct StateDigest: Hashable, Sendable {
    /// The sum, modulo 2^128.
    private var sum: UInt128 = 0

    /// The digest of a state without classes.
    public init() {}

    /// - Throws: `ApplyError` with the code `unavailable` when objects cannot be read.
    public init(of graph: ObjectGraph) throws(ApplyError) {
        for number in graph.schema.present {
            sum &+= Self.fingerprint(of: graph.schema[number], in: graph.schema)
            guard graph.schema[number].kind != .embedded else { continue }
            var objects: UInt128 = 0
            try graph.forEachObject(of: number) { key, fields throws(ApplyError) in
                objects &+= try Self.fingerprint(of: ObjectReference(classID: number, key: key), fields, in: graph)
            }
            sum &+= objects
        }
    }

    /// Follows a change from one state to another.
    ///
    /// The cost is that of the changed objects, before and after; a class or column that was erased costs a new look at
    /// everything.
    public mutating func update(
        from before: ObjectGraph, to after: ObjectGraph, changes: StateChanges
    ) throws(ApplyError) {
        guard !changes.erasesValues else {
            self = try StateDigest(of: after)
            return
        }
        if changes.isSchemaChanged {
            for number in before.schema.present {
                sum &-= Self.fingerprint(of: before.schema[number], in: before.schema)
            }
            for number in after.schema.present { sum &+= Self.fingerprint(of: after.schema[number], in: after.schema) }
        }
        for object in changes.distinctObjects {
            if before.schema.contains(object.classID), let fields = try before.fields(of: object) {
                sum &-= try Self.fingerprint(of: object, fields, in: before)
            }
            if let fields = try after.fields(of: object) {
                sum &+= try Self.fingerprint(of: object, fields, in: after)
            }
        }
    }

    // MARK: Parts

    /// The fingerprint of the declaration of a class, without the order of columns and anything that only this replica
    /// knows.
    private static func fingerprint(of state: ClassState, in schema: Schema) -> UInt128 {
        var mixer = DigestMixer(.schema)
        mixer.add(state.name)
        mixer.add(UInt64(state.kind.rawValue))
        if let key = state.key {
            mixer.add(key.name)
            mixer.add(UInt64(bitPattern: Int64(key.type.rawValue)))
        }
        var sum = mixer.finish()
        for case let column? in state.columns {
            var mixer = DigestMixer(.column)
            mixer.add(state.name)
            mixer.add(column.name)
            mixer.add(UInt64(bitPattern: Int64(column.place.type.rawValue)))
            mixer.add(UInt64(column.place.collection.rawValue))
            if column.place.type == .link { mixer.add(schema[column.place.target].name) }
            sum &+= mixer.finish()
        }
        return sum
    }

    /// The sum over an object's fields. A field with its initial value adds nothing, so a new column costs nothing.
    private static func fingerprint(
        of object: ObjectReference, _ fields: Fields, in graph: ObjectGraph
    ) throws(ApplyError) -> UInt128 {
        var identity = DigestMixer(.object)
        identity.add(object, in: graph.schema)
        return identity.finish() &+ (try fingerprint(of: fields, of: object.classID, identity, in: graph.schema))
    }

    /// Recurses as deep as paths are long.
    fileprivate static func fingerprint(
        of fields: Fields, of classID: ClassID, _ identity: DigestMixer, in schema: Schema
    ) throws(ApplyError) -> UInt128 {
        var sum: UInt128 = 0
        for case let column? in schema[classID].columns where column.place.slot < fields.contents.count {
            let content = fields.contents[column.place.slot]
            guard !content.isInitial(in: column) else { continue }
            var mixer = identity
            mixer.add(column.name)
            try mixer.add(content, at: column.place, in: schema)
            sum &+= mixer.finish()
        }
        return sum
    }
}

extension StateDigest: CustomStringConvertible {
    /// 32 lower-case hexadecimal digits.
    public var description: String {
        let digits = String(sum, radix: 16)
        return String(repeating: "0", count: 32 - digits.utf8.count) + digits
    }
}

extension Content {
    fileprivate func isInitial(in column: Column) -> Bool {
        switch (self, column.initial) {
        case (.list(let list), .list): list.isEmpty
        case (.set(let elements), .set): elements.isEmpty
        case (.dictionary(let entries), .dictionary): entries.isEmpty
        // It is long.
        case (.stored, _): false
        case (let content, let initial):
            content.scalarType == initial.scalarType && Content.compare(content, initial) == 0
        }
    }
}

/// Mixes words into 128 bits: two lanes of multiplications with fixed odd constants.
private struct DigestMixer {
    enum Domain: UInt64 {
        case schema = 1
        case column, object, list, dictionary, set, embedded
    }

    private var first: UInt64
    private var second: UInt64

    init(_ domain: Domain) {
        first = 0x243F_6A88_85A3_08D3 ^ domain.rawValue
        second = 0x1319_8A2E_0370_7344 &+ domain.rawValue
    }

    @inline(__always)
    private static func fold(_ left: UInt64, _ right: UInt64) -> UInt64 {
        let product = left.multipliedFullWidth(by: right)
        return product.high ^ product.low
    }

    @inline(__always)
    mutating func add(_ word: UInt64) {
        let mixed = Self.fold(first ^ word, 0x9E37_79B9_7F4A_7C15)
        second = Self.fold(second ^ word.byteSwapped, 0xD6E8_FEB8_6659_FD93) &+ first
        first = mixed &+ 0xA409_3822_299F_31D1
    }

    mutating func add(wide value: UInt128) {
        add(UInt64(truncatingIfNeeded: value))
        add(UInt64(truncatingIfNeeded: value >> 64))
    }

    mutating func add(_ bytes: [UInt8]) {
        add(UInt64(bytes.count))
        var word: UInt64 = 0
        for (position, byte) in bytes.enumerated() {
            word = word << 8 | UInt64(byte)
            if position & 7 == 7 {
                add(word)
                word = 0
            }
        }
        add(word)
    }

    mutating func add(_ object: ObjectReference, in schema: Schema) {
        add(schema[object.classID].name)
        add(object.key.rowKey)
    }

    func finish() -> UInt128 {
        var last = self
        last.add(UInt64(0x082E_FA98_EC4E_6C89))
        last.add(UInt64(0x4528_21E6_38D0_1377))
        return UInt128(last.first) << 64 | UInt128(last.second)
    }

    // MARK: Contents

    /// Recurses as deep as paths are long.
    mutating func add(_ content: Content, at place: Place, in schema: Schema) throws(ApplyError) {
        switch content {
        case .null: add(UInt64(0))
        case .int(let value): add(kind: 1, UInt64(bitPattern: value))
        case .bool(let value): add(kind: 2, value ? 1 : 0)
        case .string(let text):
            add(UInt64(3))
            add(text)
        case .binary(let bytes):
            add(UInt64(4))
            add(bytes)
        case .timestamp(let value):
            add(kind: 5, UInt64(bitPattern: value.seconds))
            add(UInt64(bitPattern: Int64(value.nanoseconds)))
        case .float(let value): add(kind: 6, UInt64((value == 0 ? 0 : value).bitPattern))
        case .double(let value): add(kind: 7, (value == 0 ? 0 : value).bitPattern)
        case .decimal(let value):
            add(UInt64(8))
            add(decimal: value)
        case .objectID(let value):
            add(UInt64(9))
            add(wide: value.order)
        case .uuid(let value):
            add(UInt64(10))
            add(wide: value.order)
        case .link(let object):
            add(UInt64(11))
            add(object, in: schema)
        case .object(let fields):
            add(UInt64(12))
            add(wide: try StateDigest.fingerprint(of: fields, of: place.target, DigestMixer(.embedded), in: schema))
        case .list(let list):
            add(kind: 13, UInt64(list.count))
            try list.forEach { element throws(ApplyError) in
                try add(element.content, at: place.element, in: schema)
            }
        case .dictionary(let entries):
            add(kind: 14, UInt64(entries.count))
            try entries.forEach { entry throws(ApplyError) in
                add(entry.key)
                try add(entry.content, at: place.element, in: schema)
            }
        case .set(let elements):
            // The order of links, and of values that only some comparisons take for equal, may differ between replicas.
            var sum: UInt128 = 0
            try elements.forEach { element throws(ApplyError) in
                var mixer = DigestMixer(.set)
                try mixer.add(setElement: element.content, at: place.element, in: schema)
                sum &+= mixer.finish()
            }
            add(UInt64(15))
            add(wide: sum)
        case .stored(let value): try add(try value.content(), at: place, in: schema)
        }
    }

    @inline(__always)
    private mutating func add(kind: UInt64, _ word: UInt64) {
        add(kind)
        add(word)
    }

    private mutating func add(decimal value: Decimal128) {
        guard !value.isNaN, let number = DecimalNumber(value) else {
            add(value.high)
            return add(value.low)
        }
        let isZero = !number.isInfinite && number.coefficient == 0
        add(number.isInfinite ? 2 : isZero ? 0 : 1)
        guard !isZero else { return }
        add(number.isNegative ? 1 : 0)
        add(wide: number.coefficient)
        add(UInt64(bitPattern: Int64(number.exponent)))
    }

    /// An element of a set: which of several equal numbers is in it depends on which came first, so a whole number
    /// counts as an Int, and another number that a Double holds exactly as a Double.
    private mutating func add(
        setElement content: Content, at place: Place, in schema: Schema
    ) throws(ApplyError) {
        let double: Double
        switch content {
        case .float(let value): double = Double(value)
        case .double(let value): double = value
        case .decimal(let value):
            guard let exact = DecimalNumber(value)?.exactDouble else { return try add(content, at: place, in: schema) }
            if let whole = exact.whole { return try add(.int(whole), at: place, in: schema) }
            double = exact.double
        default: return try add(content, at: place, in: schema)
        }
        if let whole = Int64(exactly: double) { return try add(.int(whole), at: place, in: schema) }
        try add(.double(double), at: place, in: schema)
    }
}

extension DecimalNumber {
    /// The number as a Double, and as an Int if it is one; nil where neither is exact.
    fileprivate var exactDouble: (double: Double, whole: Int64?)? {
        if isInfinite { return (isNegative ? -Double.infinity : .infinity, nil) }
        // c × 10^e = c × 5^e × 2^e; with a negative e, 5^−e has to divide c.
        var odd = coefficient
        guard odd > 0 else { return (0, 0) }
        var power = exponent
        while odd.isMultiple(of: 2) {
            odd >>= 1
            power += 1
        }
        for _ in 0..<abs(exponent) {
            if exponent < 0 {
                guard odd.isMultiple(of: 5) else { return nil }
                odd /= 5
            } else {
                let (product, overflow) = odd.multipliedReportingOverflow(by: 5)
                guard !overflow, product < 1 << 64 else { return nil }
                odd = product
            }
        }
        let whole = wholeNumber(odd, power)
        guard odd < 1 << 53, -1074...971 ~= power else { return whole.map { (0, $0) } }
        let magnitude = Double(sign: .plus, exponent: power, significand: Double(UInt64(odd)))
        return (isNegative ? -magnitude : magnitude, whole)
    }

    /// ±odd × 2^power, if that is an Int.
    private func wholeNumber(_ odd: UInt128, _ power: Int) -> Int64? {
        guard 0..<64 ~= power, odd < 1 << UInt128(64 - power) else { return nil }
        let magnitude = UInt64(odd) << UInt64(power)
        return isNegative
            ? (magnitude <= 1 << 63 ? Int64(truncatingIfNeeded: 0 &- magnitude) : nil) : Int64(exactly: magnitude)
    }
}
