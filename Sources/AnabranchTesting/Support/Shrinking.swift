extension Array {
    /// The elements that are left after runs of them were removed, at first half of all, then ever shorter ones, each
    /// only if `holds` is true of the rest.
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
