import AnabranchCore
import AnabranchTesting

/// Both sides of a merge, with each step chosen by the bytes: all ways to merge have the same result.
func fuzzTransform(_ bytes: [UInt8]) -> String? {
    var choices = Choices(bytes)
    var merge = RandomMerge(seed: UInt64(choices.byte()), sizeMax: 8)
    var shape = RandomMerge.Shape(of: merge)
    shape.objects = 1 + choices.below(3)
    shape.lists = 1 + choices.below(2)
    shape.listSize = choices.below(12)
    shape.containersOneIn = choices.pick([nil, 2, 5])
    shape.hasAllTypes = choices.below(2) == 1
    shape.hasNaN = choices.below(8) == 1
    merge.shape = shape
    let template = merge.local[0]
    (merge.local, merge.incoming) = ([], [])
    // Four bytes a step; more steps than these have no more to say.
    for _ in 0..<64 where !choices.isAtEnd {
        var step = template
        step.action = choices.pick(RandomMerge.Step.Action.allCases)
        step.seed = UInt64(choices.byte())
        let flags = choices.byte(), isLocal = flags & 1 == 0
        step.startsChangeset = flags & 2 == 0
        step.tag = OriginTag(timestamp: ChangesetTime(UInt64(choices.byte() % 16)), ident: isLocal ? 2 : 3)
        if isLocal { merge.local.append(step) } else { merge.incoming.append(step) }
    }
    do {
        let comparison = try MergeComparison(merge, ways: [.indexed, .finest, .steps])
        return comparison.differences.first.map { "merged in the way \($0.way), it becomes something else" }
    } catch {
        return "a side was written that does not decode: \(error)"
    }
}

extension RandomMerge.Shape {
    fileprivate init(of merge: RandomMerge) { self = merge.shape }
}
