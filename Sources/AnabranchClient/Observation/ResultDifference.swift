import AnabranchCore
import AnabranchQuery

// The differences between two results of a query.

extension QueryChange {
    init(first results: ObjectResults<Object>) {
        self.init(
            oldResults: ObjectResults(), results: results, deletions: [], insertions: Array(results.indices),
            modifications: [])
    }

    var isEmpty: Bool { deletions.isEmpty && insertions.isEmpty && modifications.isEmpty }

    /// Compares all objects of both results.
    init(from old: ObjectResults<Object>, to new: ObjectResults<Object>) throws {
        let oldKeys = old.keys, newKeys = new.keys
        let positions = Dictionary(uniqueKeysWithValues: oldKeys.enumerated().map { ($1, $0) })
        let common = newKeys.enumerated().compactMap { new, key in positions[key].map { (old: $0, new: new) } }
        let kept = common.longestIncreasing
        let keptOld = Set(kept.map(\.old)), keptNew = Set(kept.map(\.new))
        self.init(
            oldResults: old, results: new, deletions: old.indices.filter { !keptOld.contains($0) },
            insertions: new.indices.filter { !keptNew.contains($0) },
            modifications: try kept.filter { try !Self.areEqual(old[$0.old], new[$0.new]) })
    }

    /// Compares only the objects that were touched.
    init(
        from old: ObjectResults<Object>, to new: ObjectResults<Object>,
        _ touched: [(before: ObjectResults<Object>.Place?, after: ObjectResults<Object>.Place?)], _ query: Query
    ) throws {
        var deletions: [Int] = [], insertions: [Int] = [], modifications: [(old: Int, new: Int)] = []
        for (before, after) in touched {
            let oldIndex = before.map { old.find($0, query).index }, newIndex = after.map { new.find($0, query).index }
            if let before, let after, let oldIndex, let newIndex, query.compare(before.values, after.values) == 0 {
                if try !Self.areEqual(old[oldIndex], new[newIndex]) { modifications.append((oldIndex, newIndex)) }
            } else {
                if let oldIndex { deletions.append(oldIndex) }
                if let newIndex { insertions.append(newIndex) }
            }
        }
        self.init(
            oldResults: old, results: new, deletions: deletions.sorted(), insertions: insertions.sorted(),
            modifications: modifications.sorted { $0.new < $1.new })
    }

    private static func areEqual(_ left: Object, _ right: Object) throws -> Bool {
        let schema = try ObjectSchema.of(Object.self)
        return try schema.contents(of: left) == schema.contents(of: right)
    }
}

extension ObjectResults {
    fileprivate var keys: [PrimaryKey] { tree.prefix(count).map(\.place.key) }
}

extension [(old: Int, new: Int)] {
    /// The longest subsequence whose old indices ascend as the new ones do: these elements have kept their order.
    fileprivate var longestIncreasing: [Element] {
        var ends: [Int] = [], previous = Array<Int?>(repeating: nil, count: count)
        for index in indices {
            var low = 0, high = ends.count
            while low < high {
                let middle = (low + high) / 2
                if self[ends[middle]].old < self[index].old { low = middle + 1 } else { high = middle }
            }
            if low > 0 { previous[index] = ends[low - 1] }
            if low == ends.count { ends.append(index) } else { ends[low] = index }
        }
        var longest: [Element] = [], next = ends.last
        while let index = next {
            longest.append(self[index])
            next = previous[index]
        }
        return longest.reversed()
    }
}
