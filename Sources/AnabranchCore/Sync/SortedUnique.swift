extension Array where Element: Comparable {
    /// The elements in ascending order, each once.
    @inlinable
    package consuming func sortedUnique() -> [Element] {
        sort()
        var kept = 0
        for position in indices where position == 0 || self[position] != self[kept - 1] {
            self[kept] = self[position]
            kept += 1
        }
        removeLast(count - kept)
        return self
    }
}
