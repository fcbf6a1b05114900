package import AnabranchCore

extension ObjectDiff {
    /// The members after the change. `+` and `r` always fit, and `-` of a missing member does nothing.
    /// - Parameter bytesMax: the greatest size of the new object as compact JSON.
    /// - Throws: An error with the code 440 if an operation does not fit its member, or 413 if the object would be
    ///   larger than `bytesMax`, or nested deeper than JSON is read.
    package func applied(
        to entity: [JSONName: JSONValue], bytesMax: Int
    ) throws(JSONDiffError) -> [JSONName: JSONValue] {
        let result = try applied(to: entity), size = JSONValue.object(result).size
        guard size.bytes <= bytesMax else {
            throw JSONDiffError(.tooLarge, "it would have \(size.bytes) bytes, and may have \(bytesMax)")
        }
        guard size.depth <= JSONValue.depthMax else {
            throw JSONDiffError(.tooLarge, "it would be \(size.depth) deep, and may be \(JSONValue.depthMax)")
        }
        return result
    }

    /// The members after the change, of any size.
    package func applied(to entity: [JSONName: JSONValue]) throws(JSONDiffError) -> [JSONName: JSONValue] {
        var result = entity
        for (name, operation) in members.inOrder {
            do {
                result[name] = try operation.value(from: entity[name])
            } catch {
                throw error.within(name.text)
            }
        }
        return result
    }

    /// The operations that fit the members as they are, each as a whole. Those on an object fit if all within fit.
    package func fitting(_ entity: [JSONName: JSONValue]) -> ObjectDiff {
        ObjectDiff(
            members.filter { name, operation in
                operation == .remove ? entity[name] != nil : (try? operation.value(from: entity[name])) != nil
            })
    }

    /// The same change in the form that the server sends: only `+`, `-`, `r`, `O` and `d`, strings as deltas of whole
    /// characters, and no operation without an effect. Empty if nothing changes.
    /// - Throws: An error with the code 440 if an operation does not fit.
    package func emitted(on entity: [JSONName: JSONValue]) throws(JSONDiffError) -> ObjectDiff {
        var result = ObjectDiff()
        for (name, operation) in members.inOrder {
            do {
                result.members[name] = try operation.emitted(on: entity[name])
            } catch {
                throw error.within(name.text)
            }
        }
        return result
    }
}

extension JSONOperation {
    /// The value after the operation on one, or on a missing one; nil if it is removed.
    func value(from old: JSONValue?) throws(JSONDiffError) -> JSONValue? {
        switch (self, old) {
        case (.add(let value), _), (.replace(let value), _): return value
        case (.remove, _): return nil
        case (.object(let diff), .object(let members)): return .object(try diff.applied(to: members))
        case (.text(let delta), .string(let text)): return .string(try delta.applied(to: text))
        case (.list(let operations), .array(let elements)):
            return .array(try ListEdit(operations, count: elements.count).applied(to: elements))
        case (.listText(let delta), .array(let elements)): return .array(try delta.applied(toLinesOf: elements))
        case (.increment(let summand), let number?):
            guard let sum = number.adding(summand) else { break }
            return sum
        default: break
        }
        throw JSONDiffError(.doesNotApply, "\(kindOfOperand) is needed, and there is \(old?.kind ?? "nothing")")
    }

    fileprivate func emitted(on old: JSONValue?) throws(JSONDiffError) -> JSONOperation? {
        switch (self, old) {
        case (.remove, _): return old == nil ? nil : self
        case (.object(let diff), .object(let members)):
            let emitted = try diff.emitted(on: members)
            return emitted.isEmpty ? nil : .object(emitted)
        case (.text(let delta), .string(let text)):
            let delta = try delta.inWholeCharacters(of: text)
            // One of another length has changed for certain.
            if delta.newCount == delta.oldCount, try delta.applied(to: text).hasBytes(of: text) { return nil }
            return .text(delta)
        default: return try value(from: old).flatMap { JSONOperation(from: old, to: $0) }
        }
    }

    private var kindOfOperand: String {
        switch self {
        case .object: "an object"
        case .text: "a string"
        case .list, .listText: "a list"
        default: "a number not beyond all others"
        }
    }
}

extension JSONValue {
    fileprivate var kind: String {
        switch self {
        case .null: "null"
        case .bool: "a boolean"
        case .integer, .largeInteger, .real: "a number"
        case .string: "a string"
        case .array: "a list"
        case .object: "an object"
        }
    }
}
