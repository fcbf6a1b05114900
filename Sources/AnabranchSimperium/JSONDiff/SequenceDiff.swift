/// The places at which one sequence differs from another, few of them: those of the shortest edit script, found with
/// Myers' algorithm in linear space. The search is bounded: it costs O(n log n), and where two parts have too little in
/// common for that, they are compared line by line, or one replaces the other as a whole.
struct SequenceDiff {
    /// A part of the old sequence that gives way to one of the new sequence. One of both may be empty.
    struct Change: Equatable {
        var old: Range<Int>
        var new: Range<Int>
    }

    private let old: [UInt32]
    private let new: [UInt32]
    private let lineEnd: UInt32?
    /// In the order of their places, with at least one equal element between two of them.
    private(set) var changes: [Change] = []

    /// - Parameter lineEnd: the last element of a line, if the sequences have lines.
    init(from old: [UInt32], to new: [UInt32], lineEnd: UInt32? = nil) {
        self.old = old
        self.new = new
        self.lineEnd = lineEnd
        compare(Change(old: 0..<old.count, new: 0..<new.count), byLines: lineEnd != nil)
    }

    private mutating func compare(_ whole: Change, byLines: Bool) {
        let part = trimmed(whole)
        if part.old.isEmpty && part.new.isEmpty { return }
        if part.old.isEmpty || part.new.isEmpty { return append(part) }
        if let (x, y) = middle(of: part) {
            compare(Change(old: part.old.lowerBound..<x, new: part.new.lowerBound..<y), byLines: byLines)
            compare(Change(old: x..<part.old.upperBound, new: y..<part.new.upperBound), byLines: byLines)
        } else if byLines {
            compareLines(of: part)
        } else {
            append(part)
        }
    }

    private mutating func append(_ change: Change) {
        if let last = changes.last, last.old.upperBound == change.old.lowerBound,
            last.new.upperBound == change.new.lowerBound
        {
            changes[changes.count - 1] = Change(
                old: last.old.lowerBound..<change.old.upperBound, new: last.new.lowerBound..<change.new.upperBound)
        } else {
            changes.append(change)
        }
    }

    /// The part without what both have alike at their beginnings and ends.
    private func trimmed(_ part: Change) -> Change {
        var part = part
        let prefix = zip(old[part.old], new[part.new]).prefix { $0 == $1 }.count
        part.old.removeFirst(prefix)
        part.new.removeFirst(prefix)
        let suffix = zip(old[part.old].reversed(), new[part.new].reversed()).prefix { $0 == $1 }.count
        part.old.removeLast(suffix)
        part.new.removeLast(suffix)
        return part
    }

    // MARK: Lines

    private mutating func compareLines(of part: Change) {
        var numbers: [ArraySlice<UInt32>: UInt32] = [:]
        let (oldLines, newLines) = (lines(of: old[part.old]), lines(of: new[part.new]))
        func number(_ line: ArraySlice<UInt32>) -> UInt32 {
            if let known = numbers[line] { return known }
            let number = UInt32(truncatingIfNeeded: numbers.count)
            numbers[line] = number
            return number
        }
        let diff = SequenceDiff(from: oldLines.map(number), to: newLines.map(number))
        for change in diff.changes {
            let lines = Change(
                old: range(of: change.old, in: oldLines, of: part.old),
                new: range(of: change.new, in: newLines, of: part.new))
            compare(lines, byLines: false)
        }
    }

    private func lines(of elements: ArraySlice<UInt32>) -> [ArraySlice<UInt32>] {
        var lines: [ArraySlice<UInt32>] = [], start = elements.startIndex
        for index in elements.indices where elements[index] == lineEnd || index == elements.endIndex - 1 {
            lines.append(elements[start...index])
            start = index + 1
        }
        return lines
    }

    private func range(of numbers: Range<Int>, in lines: [ArraySlice<UInt32>], of whole: Range<Int>) -> Range<Int> {
        let place = { (number: Int) in number < lines.count ? lines[number].startIndex : whole.upperBound }
        return place(numbers.lowerBound)..<place(numbers.upperBound)
    }

    // MARK: Myers

    /// A place on a shortest way through a part in which both sides have something, and neither the first nor the last
    /// elements are alike: the ways from the beginning and from the end meet there. Nil if it is too far to go.
    private func middle(of part: Change) -> (x: Int, y: Int)? {
        let (n, m) = (part.old.count, part.new.count)
        var budget = 16 * (n + m) + 65_536
        var reach = 1
        while reach * reach <= budget && reach < (n + m) / 2 + 1 { reach *= 2 }
        reach = min(reach, (n + m) / 2 + 1)
        return old.withUnsafeBufferPointer { old in
            new.withUnsafeBufferPointer { new -> (x: Int, y: Int)? in
                let (a, b) = (old[part.old], new[part.new])
                let (a0, b0, a1, b1) = (a.startIndex, b.startIndex, a.endIndex - 1, b.endIndex - 1)
                // How far the best way on a diagonal k = x - y has come, counted from its own end; -1: nowhere.
                var forward = [Int](repeating: -1, count: 2 * reach + 3), backward = forward
                let zero = reach + 1
                for steps in 0...reach {
                    guard budget > 0 else { return nil }
                    budget -= 2 * (steps + 1)
                    for k in stride(from: -steps, through: steps, by: 2) where k >= -m && k <= n {
                        var x = Self.next(forward, zero + k, k, steps, n, m)
                        guard x >= 0 else { continue }
                        let start = x
                        while x < n, x - k < m, a[a0 + x] == b[b0 + x - k] { x += 1 }
                        budget -= x - start
                        forward[zero + k] = x
                        let other = n - m - k
                        if abs(other) < steps, backward[zero + other] >= 0, x + backward[zero + other] >= n {
                            return (a0 + x, b0 + x - k)
                        }
                    }
                    for k in stride(from: -steps, through: steps, by: 2) where k >= -m && k <= n {
                        var x = Self.next(backward, zero + k, k, steps, n, m)
                        guard x >= 0 else { continue }
                        let start = x
                        while x < n, x - k < m, a[a1 - x] == b[b1 - x + k] { x += 1 }
                        budget -= x - start
                        backward[zero + k] = x
                        let other = n - m - k
                        if abs(other) <= steps, forward[zero + other] >= 0, x + forward[zero + other] >= n {
                            return (a0 + n - x, b0 + m - x + k)
                        }
                    }
                }
                return nil
            }
        }
    }

    /// The farthest place on a diagonal that one more deletion or insertion reaches; -1 if there is none.
    @inline(__always)
    private static func next(_ reached: [Int], _ index: Int, _ k: Int, _ steps: Int, _ n: Int, _ m: Int) -> Int {
        if steps == 0 { return 0 }
        let (deleted, inserted) = (reached[index - 1] + 1, reached[index + 1])
        let isDeletion = deleted >= 1 && deleted <= n, isInsertion = inserted >= 0 && inserted - k <= m
        return max(isDeletion ? deleted : -1, isInsertion ? inserted : -1)
    }
}
