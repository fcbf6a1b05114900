/// An edit of a string: what is kept, deleted and inserted, in order over the whole old string. Counts are UTF-16 code
/// units (`Spec/Simperium.md`, section 2).
package struct TextDelta: Equatable, Sendable {
    enum Kind: Equatable, Sendable {
        case keep, delete, insert
    }

    struct Step: Equatable, Sendable {
        var kind: Kind
        var count: Int
    }

    /// No two of the same kind follow each other, and none is empty.
    private(set) var steps: [Step] = []
    /// The inserted text, of all places.
    private(set) var inserted: [UInt16] = []
    /// The length of the only strings that the delta fits.
    private(set) var oldCount = 0

    init() {}

    /// The delta between two strings. It consists of whole characters: no step ends within a surrogate pair, and
    /// characters are equal as a whole or not at all.
    package init(from old: String, to new: String) {
        let (old, new) = (old.unicodeScalars.map(\.value), new.unicodeScalars.map(\.value))
        let count = { (scalars: ArraySlice<UInt32>) in scalars.reduce(0) { $0 + ($1 > 0xFFFF ? 2 : 1) } }
        var place = 0
        for change in SequenceDiff(from: old, to: new, lineEnd: 0x0A).changes {
            append(.keep, count(old[place..<change.old.lowerBound]))
            append(.delete, count(old[change.old]))
            append(new[change.new].flatMap { UTF16.units(of: $0) }[...])
            place = change.old.upperBound
        }
        append(.keep, count(old[place...]))
    }

    /// True if nothing is deleted and nothing is inserted.
    package var isEmpty: Bool { steps.allSatisfy { $0.kind == .keep } }

    /// Appends a step. A count that no string has overflows.
    /// - Returns: false if it is such a count.
    @discardableResult mutating func append(_ kind: Kind, _ count: Int) -> Bool {
        if kind != .insert {
            let (sum, isTooLarge) = oldCount.addingReportingOverflow(count)
            guard !isTooLarge else { return false }
            oldCount = sum
        }
        if let last = steps.last, last.kind == kind {
            steps[steps.count - 1].count += count
        } else if count > 0 {
            steps.append(Step(kind: kind, count: count))
        }
        return true
    }

    mutating func append(_ insertion: ArraySlice<UInt16>) {
        inserted += insertion
        append(.insert, insertion.count)
    }

    // MARK: Applying

    /// The string after the edit.
    /// - Throws: An error with the code 440 if the string has another length, or half a surrogate pair would be left.
    package func applied(to text: String) throws(JSONDiffError) -> String {
        let old = Array(text.utf16)
        guard old.count == oldCount else {
            throw JSONDiffError(.doesNotApply, "a delta for \(oldCount) code units, not \(old.count)")
        }
        var new: [UInt16] = [], place = 0, insertion = 0
        for step in steps {
            switch step.kind {
            case .keep: new += old[place..<place + step.count]
            case .insert: new += inserted[insertion..<insertion + step.count]
            case .delete: break
            }
            if step.kind == .insert { insertion += step.count } else { place += step.count }
        }
        guard let result = String(validating: new, as: UTF16.self) else {
            throw JSONDiffError(.doesNotApply, "half a surrogate pair would be left")
        }
        return result
    }

    /// A delta that has the same outcome for the string, and consists of whole characters.
    package func inWholeCharacters(of text: String) throws(JSONDiffError) -> TextDelta {
        let new = try applied(to: text)
        return splitsCharacter(of: Array(text.utf16)) ? TextDelta(from: text, to: new) : self
    }

    private func splitsCharacter(of old: [UInt16]) -> Bool {
        var place = 0, insertion = 0
        for step in steps {
            if place > 0, place < old.count, UTF16.isLeadSurrogate(old[place - 1]),
                UTF16.isTrailSurrogate(old[place])
            {
                return true
            }
            guard step.kind == .insert else {
                place += step.count
                continue
            }
            let text = inserted[insertion..<insertion + step.count]
            if String(validating: text, as: UTF16.self) == nil { return true }
            insertion += step.count
        }
        return false
    }

    // MARK: Rebasing

    /// This delta, for the string that another one has made of the string that both are for (`Spec/Simperium.md`,
    /// section 4). What either side deletes is deleted once, and what either side inserts stays, also where the other
    /// has deleted the text around it. Of two insertions at the same place, that of `theirs` comes first.
    ///
    /// Both consist of whole characters; so does the outcome.
    package func rebased(over theirs: TextDelta) throws(JSONDiffError) -> TextDelta {
        guard oldCount == theirs.oldCount else {
            throw JSONDiffError(.doesNotApply, "a delta for \(oldCount) code units, not \(theirs.oldCount)")
        }
        var result = TextDelta(), insertion = 0
        var ours = steps[...], their = theirs.steps[...]
        while true {
            if let step = their.first, step.kind == .insert {
                result.append(.keep, step.count)
                their.removeFirst()
            } else if let step = ours.first, step.kind == .insert {
                result.append(inserted[insertion..<insertion + step.count])
                insertion += step.count
                ours.removeFirst()
            } else if let step = ours.first, let other = their.first {
                let count = min(step.count, other.count)
                if other.kind == .keep { result.append(step.kind, count) }
                ours.take(count)
                their.take(count)
            } else {
                return result
            }
        }
    }
}

extension ArraySlice<TextDelta.Step> {
    /// Takes so much from the first step, or all of it.
    fileprivate mutating func take(_ count: Int) {
        self[startIndex].count -= count
        if self[startIndex].count == 0 { removeFirst() }
    }
}

extension UTF16 {
    /// The code units of a character outside and inside the basic plane.
    static func units(of scalar: UInt32) -> [UInt16] {
        guard scalar > 0xFFFF else { return [UInt16(truncatingIfNeeded: scalar)] }
        let rest = scalar - 0x10000
        return [0xD800 + UInt16(truncatingIfNeeded: rest >> 10), 0xDC00 + UInt16(truncatingIfNeeded: rest & 0x3FF)]
    }
}
