import AnabranchCore

extension MergeRule {
    /// The reason why no pair of valid instructions can show the rule's effect; nil if pairs can.
    var whyNoEffect: String? {
        guard self == .N4 else { return nil }
        return "a number has nothing inside, and what makes it a collection discards the increment first (R7, R23)"
    }
}
