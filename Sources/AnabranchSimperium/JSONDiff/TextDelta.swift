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
            var units: [UInt16] = []
            for scalar in new[change.new] { UTF16.append(scalar, to: &units) }
            append(units[...])
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

    /// The length of the string after the edit.
    var newCount: Int { steps.reduce(inserted.count) { $0 + ($1.kind == .keep ? $1.count : 0) } }

    /// The string after the edit.
    /// - Throws: An error with the code 440 if the string has another length, or half a surrogate pair would be left.
    package func applied(to text: String) throws(JSONDiffError) -> String {
        guard try splitsCharacter(of: text) else { return appliedInWholeCharacters(to: text) }
        let old = Array(text.utf16)
        var new: [UInt16] = [], place = 0, insertion = 0
        for step in steps {
            switch step.kind {
            case .keep: new += old[place..<place + step.count]
            case .insert: new += inserted[insertion..<insertion + step.count]
            case .delete: break
            }
            if step.kind == .insert { insertion += step.count } else { place += step.count }
        }
        guard let result = String(validating: GeneralizedUTF8.encode(new[...]), as: UTF8.self) else {
            throw JSONDiffError(.doesNotApply, "half a surrogate pair would be left")
        }
        return result
    }

    private func appliedInWholeCharacters(to text: String) -> String {
        var new = "", place = text.startIndex, insertion = 0
        new.reserveCapacity(text.utf8.count + inserted.count)
        for step in steps {
            if step.kind == .insert {
                let units = inserted[insertion..<insertion + step.count]
                new += String(decoding: GeneralizedUTF8.encode(units), as: UTF8.self)
                insertion += step.count
            } else {
                let end = text.utf16.index(place, offsetBy: step.count)
                if step.kind == .keep { new += text[place..<end] }
                place = end
            }
        }
        return new
    }

    /// A delta that has the same outcome for the string, and consists of whole characters.
    package func inWholeCharacters(of text: String) throws(JSONDiffError) -> TextDelta {
        try splitsCharacter(of: text) ? TextDelta(from: text, to: applied(to: text)) : self
    }

    /// True if a step ends within a character of the string, or only half of one is inserted.
    /// - Throws: An error with the code 440 if the string has another length.
    private func splitsCharacter(of text: String) throws(JSONDiffError) -> Bool {
        let old = text.utf16
        guard old.count == oldCount else {
            throw JSONDiffError(.doesNotApply, "a delta for \(oldCount) code units, not \(old.count)")
        }
        var place = old.startIndex, insertion = 0
        for step in steps {
            if place < old.endIndex, UTF16.isTrailSurrogate(old[place]) { return true }
            if step.kind == .insert {
                if UTF16.hasHalf(inserted[insertion..<insertion + step.count]) { return true }
                insertion += step.count
            } else {
                place = old.index(place, offsetBy: step.count)
            }
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
    /// Appends the one or two code units of a character, or a half of a surrogate pair.
    static func append(_ scalar: UInt32, to units: inout [UInt16]) {
        guard scalar > 0xFFFF else { return units.append(UInt16(truncatingIfNeeded: scalar)) }
        let rest = scalar - 0x10000
        units.append(0xD800 + UInt16(truncatingIfNeeded: rest >> 10))
        units.append(0xDC00 + UInt16(truncatingIfNeeded: rest & 0x3FF))
    }

    /// True if a half of a surrogate pair stands alone.
    static func hasHalf(_ units: ArraySlice<UInt16>) -> Bool {
        var isAfterLead = false
        for unit in units {
            guard isTrailSurrogate(unit) == isAfterLead else { return true }
            isAfterLead = isLeadSurrogate(unit)
        }
        return isAfterLead
    }
}
