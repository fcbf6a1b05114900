import AnabranchCore
import AnabranchSimperium

/// Up to six lines: an object, two diffs of it, a text, and two deltas of it. What is promised of diffs and deltas
/// holds for them (`Spec/Simperium.md`, sections 1 to 4).
func fuzzJSONDiff(_ bytes: [UInt8]) -> String? {
    let lines = bytes.split(separator: 10, maxSplits: 5, omittingEmptySubsequences: false)
    func json(_ index: Int) -> JSONValue? {
        index < lines.count ? try? JSONValue(parsing: lines[index], depthMax: 200) : nil
    }
    func diff(_ index: Int) -> ObjectDiff? { json(index).flatMap { try? ObjectDiff(parsing: $0) } }
    func text(_ index: Int) -> String? {
        index < lines.count ? String(validating: lines[index], as: UTF8.self) : nil
    }
    func delta(_ index: Int) -> TextDelta? { text(index).flatMap { try? TextDelta(decoding: $0) } }

    if let base = try? json(0)?.normalized().members, let ours = diff(1) {
        if let problem = jsonDiffProblem(base, ours: ours, theirs: diff(2) ?? ObjectDiff()) { return problem }
    }
    guard let base = text(3), let ours = delta(4) else { return nil }
    return textDeltaProblem(base, ours: ours, theirs: delta(5) ?? ours)
}
