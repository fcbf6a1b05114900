extension Array where Element: Comparable {
    /// The place of the first element that is `element` or more; the elements are ascending.
    func firstPlace(of element: Element) -> Int { firstPlace { $0 >= element } }
}

extension Array {
    /// The place of the first element that is far enough, as all after it are; the end if none is.
    func firstPlace(where isFarEnough: (Element) -> Bool) -> Int {
        var low = 0, high = count
        while low < high {
            let middle = low + (high - low) / 2
            if isFarEnough(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
