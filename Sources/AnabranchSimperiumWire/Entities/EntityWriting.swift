import AnabranchCore
import AnabranchSimperium

extension DynamicObject {
    /// Replaces the members of an entity of the form `flat`.
    /// - Parameter old: its present members; none if it has just been made.
    func writeFlat(_ new: EntityBody, over old: EntityBody) throws(ApplyError) {
        let body = try dictionary(BucketForm.body), nested = try dictionary(BucketForm.nested)
        for name in Set(old.keys).union(new.keys).sorted() {
            let after = new[name]
            if let before = old[name], let after, before.isSameJSON(as: after) { continue }
            let isNested = after?.isNested ?? false
            try body.set(isNested ? nil : after?.payload, as: name)
            try nested.set(isNested ? after.map { .string(Array($0.encoded.utf8)) } : nil, as: name)
        }
    }
}

extension DynamicDictionary {
    /// Sets the value of a member, or removes it.
    fileprivate func set(_ value: Payload?, as name: JSONName) throws(ApplyError) {
        let key = try MemberName.key(name.text, in: self)
        if let value { try set(value, for: key) } else { try remove(key) }
    }
}

extension JSONValue {
    /// True for objects and lists.
    fileprivate var isNested: Bool {
        switch self {
        case .array, .object: true
        default: false
        }
    }

    /// A value that is neither an object nor a list, as a Mixed has it. Numbers are in their one form.
    fileprivate var payload: Payload {
        switch self {
        case .null, .array, .object: .null
        case .bool(let flag): .bool(flag)
        case .integer(let number): .int(number)
        case .largeInteger(let digits): .double(Double(digits) ?? 0)
        case .real(let number): .double(number)
        case .string(let text): .string(Array(text.utf8))
        }
    }
}
