package import AnabranchCore

extension ObjectDiff {
    /// This diff, rebased on the members that another diff of the same base has produced: the table of
    /// `Spec/Simperium.md`, section 4. Over several accepted changes it is rebased one by one, each time with the
    /// members that the change was made on.
    ///
    /// Operations keep their kinds where nothing is in their way; `emitted(on:)` gives the outcome the form in which it
    /// is sent.
    /// - Throws: An error with the code 440 if an operation on a member that both change does not fit.
    package func rebased(
        over theirs: ObjectDiff, base: [JSONName: JSONValue]
    ) throws(JSONDiffError) -> ObjectDiff {
        var result = self
        for (name, operation) in members.inOrder {
            guard let other = theirs.members[name] else { continue }
            do {
                result.members[name] = try operation.rebased(over: other, base: base[name])
            } catch {
                throw error.within(name.text)
            }
        }
        return result
    }
}

extension JSONOperation {
    /// A row of the table; nil if nothing is left to do.
    func rebased(over theirs: JSONOperation, base: JSONValue?) throws(JSONDiffError) -> JSONOperation? {
        switch (self, theirs) {
        case (.remove, .remove): return nil
        case (.remove, _): return self
        case (_, .remove): return try value(from: base).map { .add($0) }
        case (.add(let value), .add(let other)): return JSONOperation(from: other, to: value)
        case (.add(let value), _), (.replace(let value), _): return .replace(value)
        case (.increment, .increment): return self
        case (.object(let diff), .object(let other)):
            guard case .object(let members) = base else { break }
            let rebased = try diff.rebased(over: other, base: members)
            return rebased.isEmpty ? nil : .object(rebased)
        case (.text(let delta), .text(let other)):
            guard case .string(let text) = base else { break }
            let rebased = try delta.inWholeCharacters(of: text).rebased(over: other.inWholeCharacters(of: text))
            return rebased.isEmpty ? nil : .text(rebased)
        case (.list, .list), (.list, .listText), (.listText, .list), (.listText, .listText):
            guard case .array(let elements) = base else { break }
            let merged = try ListEdit(self, of: elements).merged(with: ListEdit(theirs, of: elements), elements)
            return try theirs.value(from: base).flatMap { JSONOperation(from: $0, to: .array(merged)) }
        default: break
        }
        // Our edit cannot be carried over theirs: the value that it alone would have made is what counts.
        guard let value = try value(from: base), let other = try theirs.value(from: base) else { return nil }
        return value.isSameJSON(as: other) ? nil : .replace(value)
    }
}
