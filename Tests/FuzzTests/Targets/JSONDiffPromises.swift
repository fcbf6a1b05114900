import AnabranchCore
import AnabranchSimperium

/// The greatest object that the promises are tried with. Inputs are far smaller.
private let bytesMax = 1 << 24

/// The promise about an object and two diffs of it that does not hold, in words; nil if all do.
func jsonDiffProblem(_ base: [JSONName: JSONValue], ours: ObjectDiff, theirs: ObjectDiff) -> String? {
    if (try? ObjectDiff(parsing: ours.json)) != ours { return "written, a diff reads as another one" }
    guard let our = try? ours.applied(to: base, bytesMax: bytesMax) else {
        let rest = ours.fitting(base)
        return (try? rest.applied(to: base, bytesMax: bytesMax)) == nil && JSONValue.object(base).isShallow
            ? "what fits does not apply" : nil
    }
    if let problem = emissionProblem(of: ours, from: base, to: our) { return problem }
    guard let their = try? theirs.applied(to: base, bytesMax: bytesMax) else { return nil }
    if let problem = differenceProblem(from: their, to: our) { return problem }
    guard let rebased = try? ours.rebased(over: theirs, base: base) else { return "it applies and cannot be rebased" }
    let merged: [JSONName: JSONValue]
    do { merged = try rebased.applied(to: their, bytesMax: bytesMax) } catch {
        return error.code == .tooLarge ? nil : "rebased, it does not apply: \(error)"
    }
    if let problem = emissionProblem(of: rebased, from: their, to: merged) { return problem }
    return mergeProblem(base, ours, our, theirs, their, merged)
}

/// The outcome of two deltas is a text with what both insert, and the same in both orders unless both insert at one
/// place.
func textDeltaProblem(_ base: String, ours: TextDelta, theirs: TextDelta) -> String? {
    if (try? TextDelta(decoding: ours.encoded)) != ours { return "written, a delta reads as another one" }
    guard let our = try? ours.applied(to: base), let their = try? theirs.applied(to: base) else { return nil }
    let delta = TextDelta(from: our, to: their)
    guard let result = try? TextDelta(decoding: delta.encoded).applied(to: our), result.hasBytes(of: their) else {
        return "the delta from one text to another, \(delta.encoded), does not make it"
    }
    do {
        let (left, right) = (try ours.inWholeCharacters(of: base), try theirs.inWholeCharacters(of: base))
        let merged = try left.rebased(over: right).applied(to: their)
        let other = try right.rebased(over: left).applied(to: our)
        let isOrderless = insertionPlaces(of: left).isDisjoint(with: insertionPlaces(of: right))
        return isOrderless && !merged.hasBytes(of: other) ? "in one order \(merged), in the other \(other)" : nil
    } catch {
        return "a delta of whole characters does not apply after another one: \(error)"
    }
}

/// The places in the old text before which a delta inserts something.
private func insertionPlaces(of delta: TextDelta) -> Set<Int> {
    var places: Set<Int> = [], place = 0
    for token in delta.encoded.split(separator: "\t") {
        if token.hasPrefix("+") { places.insert(place) } else { place += Int(token.dropFirst()) ?? 0 }
    }
    return places
}

extension JSONValue {
    /// True if it is not nested deeper than is allowed, whatever is added to it.
    fileprivate var isShallow: Bool { (try? JSONValue(parsing: encoded.utf8, depthMax: 32)) != nil }
}

/// The difference of two objects makes one of the other.
private func differenceProblem(from old: [JSONName: JSONValue], to new: [JSONName: JSONValue]) -> String? {
    let diff = ObjectDiff(from: old, to: new)
    guard let result = try? diff.applied(to: old, bytesMax: bytesMax),
        JSONValue.object(result).isSameJSON(as: .object(new))
    else { return "the difference does not make the other object: \(diff.json.encoded)" }
    let detailed = ObjectDiff(inDetailFrom: old, to: new)
    guard let result = try? detailed.applied(to: old, bytesMax: bytesMax), isNear(.object(result), .object(new)) else {
        return "the difference in detail does not make the other object: \(detailed.json.encoded)"
    }
    return isAsTold(diff, from: old) ? nil : "a difference is not as the server tells it: \(diff.json.encoded)"
}

/// True for the same JSON, but that numbers are rounded where one is added to another.
private func isNear(_ left: JSONValue, _ right: JSONValue) -> Bool {
    switch (left, right) {
    case (.integer, .real), (.real, .integer), (.real, .real): true
    case (.array(let left), .array(let right)):
        left.count == right.count && zip(left, right).allSatisfy { isNear($0, $1) }
    case (.object(let left), .object(let right)):
        left.count == right.count && left.allSatisfy { name, value in right[name].map { isNear(value, $0) } ?? false }
    default: left.isSameJSON(as: right)
    }
}

/// The form that is told has the same outcome, and nothing that changes nothing.
private func emissionProblem(
    of diff: ObjectDiff, from old: [JSONName: JSONValue], to new: [JSONName: JSONValue]
) -> String? {
    guard let emitted = try? diff.emitted(on: old) else { return "a diff that applies cannot be told" }
    guard let result = try? emitted.applied(to: old, bytesMax: bytesMax),
        JSONValue.object(result).isSameJSON(as: .object(new))
    else { return "the diff that is told has another outcome: \(emitted.json.encoded)" }
    if emitted.isEmpty != JSONValue.object(old).isSameJSON(as: .object(new)) { return "it changes nothing, or is lost" }
    return isAsTold(emitted, from: old) ? nil : "not as the server tells it: \(emitted.json.encoded)"
}

/// True for diffs of which every operation changes something, and has one of the five kinds that clients understand.
private func isAsTold(_ diff: ObjectDiff, from old: [JSONName: JSONValue]) -> Bool {
    diff.members.allSatisfy { name, operation in
        switch (operation, old[name]) {
        case (.add, nil), (.remove, _?): true
        case (.replace(.string), .string), (.replace(.object), .object): false
        case (.replace(let value), let former?): !value.isSameJSON(as: former)
        case (.object(let inner), .object(let members)): !inner.isEmpty && isAsTold(inner, from: members)
        case (.text(let delta), .string(let text)): !delta.isEmpty && (try? delta.inWholeCharacters(of: text)) == delta
        default: false
        }
    }
}

/// The table of section 4 as values: who has a member afterwards, and with which value.
private func mergeProblem(
    _ base: [JSONName: JSONValue], _ ours: ObjectDiff, _ our: [JSONName: JSONValue], _ theirs: ObjectDiff,
    _ their: [JSONName: JSONValue], _ merged: [JSONName: JSONValue]
) -> String? {
    for name in Set(base.keys).union(our.keys).union(their.keys).union(merged.keys) {
        let expected: JSONValue?
        switch (ours.members[name], theirs.members[name]) {
        case (nil, _): expected = their[name]
        case (.remove, _): expected = nil
        case (_, nil), (_, .remove): expected = our[name]
        case (.object(let left), .object(let right)):
            guard let members = base[name]?.members, let one = our[name]?.members, let other = their[name]?.members,
                let both = merged[name]?.members
            else { return "an object is gone: \(name)" }
            if let problem = mergeProblem(members, left, one, right, other, both) { return problem }
            continue
        case (.text, .text), (.list, .list), (.list, .listText), (.listText, .list), (.listText, .listText),
            (.increment, .increment):
            // Both are in it: see the tests of deltas, lists and sums.
            guard merged[name] != nil else { return "a member is gone: \(name)" }
            continue
        case (_?, _?): expected = our[name]
        }
        let isRight = expected.map { merged[name]?.isSameJSON(as: $0) ?? false } ?? (merged[name] == nil)
        if !isRight {
            return "\(name) became \(merged[name]?.encoded ?? "nothing"), not \(expected?.encoded ?? "nothing")"
        }
    }
    return nil
}
