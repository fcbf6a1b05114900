import AnabranchCore
import AnabranchSimperium

extension WriteTransaction {
    /// Replaces the members of an entity of a bucket, in dictionaries.
    /// - Parameter old: its present members; nil if it does not exist.
    func write(_ new: EntityBody, over old: EntityBody?, _ key: String, of bucket: Bucket) throws(ApplyError) {
        let object = try create(
            String(decoding: bucket.className, as: UTF8.self), key: .string(Array(key.utf8)))
        let old = old ?? [:], body = try object.dictionary(BucketForm.body)
        let nested = bucket.form == .flat ? try object.dictionary(BucketForm.nested) : nil
        for name in Set(old.keys).union(new.keys).sorted() {
            let key = MemberName.escaped(name.text), before = old[name], after = new[name]
            if let before, let after, before.isSameJSON(as: after) { continue }
            guard let after else {
                try body.remove(key)
                try nested?.remove(key)
                continue
            }
            if let nested, after.isNested {
                try body.remove(key)
                try nested.set(.string(Array(after.encoded.utf8)), for: key)
            } else {
                try nested?.remove(key)
                try body.set(after, over: before, for: key)
            }
        }
    }
}

extension DynamicDictionary {
    /// Sets a value of any kind. Of an object that was one, only the members that differ are written.
    fileprivate func set(_ value: JSONValue, over old: JSONValue?, for key: String) throws(ApplyError) {
        switch value {
        case .array(let elements):
            try set(.list, for: key)
            try list(for: key).append(elements)
        case .object(let members):
            guard case .object(let former)? = old, try self.value(for: key) == .dictionary else {
                try set(.dictionary, for: key)
                return try dictionary(for: key).add(members)
            }
            let dictionary = try dictionary(for: key)
            for name in Set(former.keys).union(members.keys).sorted() {
                let key = MemberName.escaped(name.text)
                if let before = former[name], let after = members[name], before.isSameJSON(as: after) { continue }
                if let after = members[name] {
                    try dictionary.set(after, over: former[name], for: key)
                } else {
                    try dictionary.remove(key)
                }
            }
        default: try set(value.payload, for: key)
        }
    }

    fileprivate func add(_ members: EntityBody) throws(ApplyError) {
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            try set(value, over: nil, for: MemberName.escaped(name.text))
        }
    }
}

extension DynamicList {
    fileprivate func append(_ elements: [JSONValue]) throws(ApplyError) {
        for (index, element) in elements.enumerated() {
            switch element {
            case .array(let inner):
                try append(.list)
                try list(at: index).append(inner)
            case .object(let members):
                try append(.dictionary)
                try dictionary(at: index).add(members)
            default: try append(element.payload)
            }
        }
    }
}

extension JSONValue {
    /// True for objects and lists.
    var isNested: Bool {
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
