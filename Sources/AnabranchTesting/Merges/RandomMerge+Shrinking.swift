extension RandomMerge {
    /// A part of this merge on which both ways still differ, and from which no single step and none of the shape's
    /// liberties can be removed.
    package func shrunk(while differs: (RandomMerge) -> Bool) -> RandomMerge {
        var smallest = self
        var previousCount = Int.max
        while smallest.local.count + smallest.incoming.count < previousCount {
            previousCount = smallest.local.count + smallest.incoming.count
            smallest.takeAway(from: \.local, while: differs)
            smallest.takeAway(from: \.incoming, while: differs)
        }
        smallest.simplifyShape(while: differs)
        return smallest
    }

    private mutating func takeAway(
        from side: WritableKeyPath<RandomMerge, [Step]>, while differs: (RandomMerge) -> Bool
    ) {
        var candidate = self
        self[keyPath: side] = self[keyPath: side].shrunk { steps in
            candidate[keyPath: side] = steps
            return differs(candidate)
        }
    }

    private mutating func simplifyShape(while differs: (RandomMerge) -> Bool) {
        let simplifications: [(inout Shape) -> Void] = [
            { $0.hasNaN = false }, { $0.hasAllTypes = false }, { $0.damagedOneIn = nil }, { $0.containersOneIn = nil },
            { $0.lists = 1 }, { $0.objects = 1 }, { $0.listSize = min($0.listSize, 3) }, { $0.listSize = 0 },
        ]
        for simplify in simplifications {
            var candidate = self
            simplify(&candidate.shape)
            if differs(candidate) { self = candidate }
        }
    }
}
