import AnabranchCore

/// The change of a list, by the places that its elements had before (`Spec/Simperium.md`, section 1).
struct ListEdit {
    /// New elements before the one that was at the index, in their order.
    private var inserted: [Int: [JSONValue]] = [:]
    /// Operations on elements, none of which is `+`.
    private var changed: [Int: JSONOperation] = [:]
    /// True if new elements stand before those of the other side at the same place.
    private let comesFirst: Bool

    /// The meaning of `L`. Its operations count as done one after the other, by ascending index; each finds its element
    /// at the index less the elements that are gone by then, among them those which are new.
    init(_ operations: [Int: JSONOperation], count: Int) throws(JSONDiffError) {
        comesFirst = true
        var insertedCount = 0
        for (index, operation) in operations.inOrder {
            // What is gone has shifted the rest of the list as far as it shifts the place.
            let place = index - insertedCount
            if case .add(let value) = operation, place <= count {
                inserted[place, default: []].append(value)
                insertedCount += 1
            } else if place < count {
                changed[place] = operation
            } else {
                throw JSONDiffError(.doesNotApply, "no element at that place").within(String(index))
            }
        }
    }

    /// The meaning of `dL`: elements that are not in the text any more are gone, others are new.
    private init(_ delta: TextDelta, of elements: [JSONValue]) throws(JSONDiffError) {
        comesFirst = false
        let new = try delta.applied(toLinesOf: elements)
        for change in SequenceDiff(from: elements, to: new).changes {
            for index in change.old { changed[index] = .remove }
            inserted[change.old.lowerBound] = Array(new[change.new])
        }
    }

    /// The change of a list by an operation on lists.
    init(_ operation: JSONOperation, of elements: [JSONValue]) throws(JSONDiffError) {
        switch operation {
        case .list(let operations): try self.init(operations, count: elements.count)
        case .listText(let delta): try self.init(delta, of: elements)
        default: throw JSONDiffError(.doesNotApply, "no change of a list")
        }
    }

    func applied(to elements: [JSONValue]) throws(JSONDiffError) -> [JSONValue] {
        try merged(with: nil, elements)
    }

    /// The list after both changes. On the same element the table of section 4 decides, with this side as ours. At the
    /// same place the new elements of `L` stand before those of the other side, as two clients have it, and those of
    /// `dL` after them, as characters of strings.
    func merged(with theirs: ListEdit?, _ elements: [JSONValue]) throws(JSONDiffError) -> [JSONValue] {
        var result: [JSONValue] = []
        result.reserveCapacity(elements.count)
        for index in 0...elements.count {
            let ours = inserted[index] ?? [], others = theirs?.inserted[index] ?? []
            result += comesFirst ? ours + others : others + ours
            guard index < elements.count else { break }
            var element: JSONValue? = elements[index]
            do {
                var operation = changed[index]
                if let other = theirs?.changed[index] {
                    operation = try operation?.rebased(over: other, base: element)
                    element = try other.value(from: element)
                }
                if let operation { element = try operation.value(from: element) }
            } catch {
                throw error.within(String(index))
            }
            if let element { result.append(element) }
        }
        return result
    }
}

extension SequenceDiff {
    /// The difference of two lists.
    init(from old: [JSONValue], to new: [JSONValue]) {
        var numbers: [ExactString: UInt32] = [:]
        func number(_ element: JSONValue) -> UInt32 {
            let key = ExactString(element.encoded)
            if let known = numbers[key] { return known }
            let number = UInt32(truncatingIfNeeded: numbers.count)
            numbers[key] = number
            return number
        }
        self.init(from: old.map(number), to: new.map(number))
    }
}

extension TextDelta {
    /// The list whose text this delta makes of the text of another: each element as compact JSON and a newline, which
    /// the last one of some clients lacks.
    func applied(toLinesOf elements: [JSONValue]) throws(JSONDiffError) -> [JSONValue] {
        var text = elements.map { $0.encoded + "\n" }.joined()
        if text.utf16.count - 1 == oldCount { text.removeLast() }
        var list: [JSONValue] = []
        for line in try applied(to: text).utf8.split(separator: 0x0A) {
            guard let element = try? JSONValue(parsing: line) else {
                throw JSONDiffError(.doesNotApply, "a line is not JSON: \(String(excerptOf: line))")
            }
            list.append(try element.normalized())
        }
        return list
    }
}
