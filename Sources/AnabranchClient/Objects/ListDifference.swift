/// The fewest steps that turn a list into another one, as a user would have made them: an element that stands in place
/// of another one has replaced it.
struct ListDifference {
    enum Step: Equatable {
        case remove(at: Int)
        /// Inserts an element of the new list.
        case insert(at: Int, element: Int)
        /// Puts an element of the new list in place of one of the old list.
        case replace(at: Int, old: Int, element: Int)
    }

    /// The steps in the order in which they are carried out; each index is that of the list as the earlier steps have
    /// left it.
    private(set) var steps: [Step] = []

    /// The number of edits up to which lists are compared as a whole. Lists that differ more are compared only at their
    /// ends, since the search costs the square of the number.
    private static let editsMax = 400

    init<Element: Equatable>(from old: [Element], to new: [Element]) {
        let start = zip(old, new).prefix { $0 == $1 }.count
        let end = zip(old[start...].reversed(), new[start...].reversed()).prefix { $0 == $1 }.count
        let (oldMiddle, newMiddle) = (old[start..<old.count - end], new[start..<new.count - end])
        var kept = Self.common(oldMiddle, newMiddle)
        kept.append((oldMiddle.endIndex, newMiddle.endIndex))
        var (position, oldIndex, newIndex) = (start, start, start)
        for next in kept {
            while oldIndex < next.old, newIndex < next.new {
                steps.append(.replace(at: position, old: oldIndex, element: newIndex))
                replaced.append((oldIndex, newIndex))
                (position, oldIndex, newIndex) = (position + 1, oldIndex + 1, newIndex + 1)
            }
            // From the last one down, so that each removal leaves the indices of the others as they are.
            for offset in (0..<next.old - oldIndex).reversed() { steps.append(.remove(at: position + offset)) }
            removed += oldIndex..<next.old
            for element in newIndex..<next.new {
                steps.append(.insert(at: position, element: element))
                position += 1
            }
            inserted += newIndex..<next.new
            (position, oldIndex, newIndex) = (position + 1, next.old + 1, next.new + 1)
        }
    }

    /// The indices in the old list of the elements that were removed.
    private(set) var removed: [Int] = []
    /// The indices in the new list of the elements that were inserted.
    private(set) var inserted: [Int] = []
    /// The indices of the elements that were replaced, in both lists.
    private(set) var replaced: [(old: Int, new: Int)] = []

    /// Pairs of equal elements, in order, as many as there can be: the shortest path through the grid of both lists, on
    /// which a pair is a free step (Myers). None if the path is longer than `editsMax`.
    private static func common<Element: Equatable>(
        _ old: ArraySlice<Element>, _ new: ArraySlice<Element>
    ) -> [(old: Int, new: Int)] {
        // By diagonal, the furthest place in the old list that can be reached with a number of edits; before each
        // round.
        var reach = [1: 0], rounds: [[Int: Int]] = []
        for edits in 0...min(old.count + new.count, editsMax) {
            rounds.append(reach)
            for diagonal in stride(from: -edits, through: edits, by: 2) {
                var x = start(of: diagonal, edits, reach)
                while x < old.count, x - diagonal < new.count,
                    old[old.startIndex + x] == new[new.startIndex + x - diagonal]
                { x += 1 }
                reach[diagonal] = x
                if x >= old.count, x - diagonal >= new.count { return pairs(rounds, old, new) }
            }
        }
        return []
    }

    /// The place where a round begins on a diagonal: after an insertion, or after a removal if that leads further.
    private static func start(of diagonal: Int, _ edits: Int, _ reach: [Int: Int]) -> Int {
        let inserted = reach[diagonal + 1] ?? -1, removed = reach[diagonal - 1] ?? -1
        return diagonal == -edits || diagonal != edits && removed < inserted ? inserted : removed + 1
    }

    /// The pairs on the way back from the end of both lists.
    private static func pairs<Element>(
        _ rounds: [[Int: Int]], _ old: ArraySlice<Element>, _ new: ArraySlice<Element>
    ) -> [(old: Int, new: Int)] {
        var found: [(old: Int, new: Int)] = [], (x, y) = (old.count, new.count)
        for (edits, reach) in rounds.enumerated().reversed() {
            let begin = start(of: x - y, edits, reach)
            while x > max(begin, 0), y > 0 {
                (x, y) = (x - 1, y - 1)
                found.append((old.startIndex + x, new.startIndex + y))
            }
            // The edit before: an insertion leaves the old list where it is.
            let inserted = reach[x - y + 1] ?? -1
            if edits > 0 { if begin == inserted { y -= 1 } else { x -= 1 } }
        }
        return found.reversed()
    }
}
