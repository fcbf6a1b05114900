extension Array where Element: Comparable {
    /// The place of the first element that is `element` or more; the elements are ascending.
    func firstPlace(of element: Element) -> Int {
        var low = 0, high = count
        while low < high {
            let middle = low + (high - low) / 2
            if self[middle] < element { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
