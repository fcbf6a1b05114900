extension Array {
    /// What is left when runs of elements are taken away, half of all first, then ever shorter ones, as long as `holds`
    /// is true of the rest.
    package func shrunk(while holds: ([Element]) -> Bool) -> [Element] {
        var rest = self
        var length = Swift.max(1, count / 2)
        while true {
            var start = 0
            while start < rest.count {
                var candidate = rest
                let end = Swift.min(start + length, rest.count)
                candidate.removeSubrange(start..<end)
                if holds(candidate) { rest = candidate } else { start = end }
            }
            if length == 1 { return rest }
            length /= 2
        }
    }
}
