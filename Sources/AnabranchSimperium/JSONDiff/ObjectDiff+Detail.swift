package import AnabranchCore

extension ObjectDiff {
    /// The difference in as much detail as operations have: lists by their elements, and numbers by what is added. What
    /// somebody else does to the same list or number is rebased over it, where the whole value would be in its way.
    package init(inDetailFrom old: [JSONName: JSONValue], to new: [JSONName: JSONValue]) {
        self.init()
        for name in old.keys where new[name] == nil { members[name] = .remove }
        for (name, value) in new { members[name] = JSONOperation(inDetailFrom: old[name], to: value) }
    }
}

extension ObjectDiff {
    /// The same change, with the whole value of each member: deltas are percent-encoded, and may be several times as
    /// long as what they insert.
    /// - Parameter new: the members after the change.
    package func inWholeMembers(of new: [JSONName: JSONValue]) -> ObjectDiff {
        var whole = self
        for (name, operation) in members {
            if case .add = operation { continue }
            whole.members[name] = new[name].map { .replace($0) } ?? .remove
        }
        return whole
    }
}

extension JSONOperation {
    /// The operation that turns one value, or none, into another; nil if they are the same.
    fileprivate init?(inDetailFrom old: JSONValue?, to new: JSONValue) {
        switch (old, new) {
        case (let old?, _) where old.isSameJSON(as: new): return nil
        case (.object(let old), .object(let new)): self = .object(ObjectDiff(inDetailFrom: old, to: new))
        case (.array(let old), .array(let new)): self = .list(Self.edits(from: old, to: new))
        default:
            // A sum of large numbers is rounded.
            guard let old, let difference = new.subtracting(old), old.adding(difference)?.isSameJSON(as: new) == true
            else {
                self.init(from: old, to: new)
                return
            }
            self = .increment(difference)
        }
    }

    /// The few operations of `L` that turn a list into another: what stands in the place of an element that is gone has
    /// replaced it. The keys are places in the old list, plus the number of the insertions before them.
    package static func edits(from old: [JSONValue], to new: [JSONValue]) -> [Int: JSONOperation] {
        var edits: [Int: JSONOperation] = [:], insertedCount = 0
        for change in SequenceDiff(from: old, to: new).changes {
            let pairs = zip(change.old, change.new)
            for (place, element) in pairs {
                edits[place + insertedCount] = JSONOperation(inDetailFrom: old[place], to: new[element])
            }
            for element in change.new.dropFirst(change.old.count) {
                edits[change.old.upperBound + insertedCount] = .add(new[element])
                insertedCount += 1
            }
            for place in change.old.dropFirst(change.new.count) { edits[place + insertedCount] = .remove }
        }
        return edits
    }
}

extension JSONValue {
    /// The difference of two numbers; nil if one is not a number, or it is larger than any Double.
    fileprivate func subtracting(_ other: JSONValue) -> JSONValue? {
        switch other {
        case .integer(let number) where number != .min: adding(.integer(-number))
        case .real(let number): adding(.real(-number))
        default: nil
        }
    }
}
