import AnabranchCore
import AnabranchTesting
import Foundation

/// The results of a number of cases.
struct FuzzMergeTally: RunTally {
    /// Cases by the size of their larger side.
    struct SizeClass {
        let operationsMax: Int
        var cases = 0
        var cells = 0
        var indexed = MergeComparison.Time()
        var everyPair = MergeComparison.Time()
    }

    /// A case in which the index costs more than every pair.
    struct SlowCase {
        var seed: UInt64
        var ratio: MergeComparison.Ratio
        /// The numbers of operations of both sides.
        var size: String
    }

    private static let listedSlowCasesMax = 10
    /// The largest cost of a case, in multiples of the cost of every pair.
    private static let costRatioMax = 2.0
    /// A case below this ratio is not measured again.
    private static let recordedRatioMin = 1.25
    /// The time that a case may cost beyond the limit: for the parts of an index that are made for few pairs.
    private static let allowedExcess = Duration.microseconds(500)

    private(set) var classes = [9, 31, 63, 100, 200, 400].map { SizeClass(operationsMax: $0) }
    /// Pairs of operations on lists: as everybody merges them; and with the smallest blocks, for ordinary mixes.
    private(set) var listPairs = ListPairs()
    private(set) var smallBlockPairs = ListPairs()
    /// The number of merges that both ways refuse.
    private(set) var errors = 0
    private(set) var slowCases: [SlowCase] = []
    /// The seeds of the cases in which the ways differ.
    private(set) var differences: [UInt64] = []

    var hasFailed: Bool { !differences.isEmpty }
    /// The number of cases that cost more than they may.
    var costlyCases: Int { slowCases.count { $0.ratio.total > Self.costRatioMax } }
    var cases: Int { classes.reduce(0) { $0 + $1.cases } }
    var cells: Int { classes.reduce(0) { $0 + $1.cells } }

    mutating func add(_ merge: RandomMerge, _ check: MergeComparison, withCosts: Bool) throws {
        let operations = max(merge.local.count, merge.incoming.count)
        let number = classes.firstIndex { operations <= $0.operationsMax } ?? classes.count - 1
        classes[number].cases += 1
        classes[number].cells += merge.cells
        classes[number].indexed += check.indexedTime
        classes[number].everyPair += check.everyPairTime
        listPairs += check.listPairs
        if merge.isOrdinaryList { smallBlockPairs += check.smallBlockPairs }
        if !check.isEqual { differences.append(merge.seed) }
        if check.everyPair == .failed { errors += 1 }
        if withCosts, let ratio = try check.ratio(of: merge, above: Self.recordedRatioMin, and: Self.allowedExcess) {
            let size = "\(merge.local.count) × \(merge.incoming.count)"
            slowCases.append(SlowCase(seed: merge.seed, ratio: ratio, size: size))
        }
    }

    mutating func add(_ other: FuzzMergeTally) {
        for number in classes.indices {
            classes[number].cases += other.classes[number].cases
            classes[number].cells += other.classes[number].cells
            classes[number].indexed += other.classes[number].indexed
            classes[number].everyPair += other.classes[number].everyPair
        }
        listPairs += other.listPairs
        smallBlockPairs += other.smallBlockPairs
        errors += other.errors
        slowCases += other.slowCases
        differences += other.differences
    }

    // MARK: Report

    /// The whole report for scripts.
    func json(after elapsed: Duration) throws -> String {
        struct Report: Encodable {
            var cases: Int, cells: Int, refused: Int, listPairs: Int, listPairsVisited: Int
            var differences: [UInt64], costlySeeds: [UInt64], seconds: Double
        }
        let costly = slowCases.filter { $0.ratio.total > Self.costRatioMax }.map(\.seed).sorted()
        return try Report(
            cases: cases, cells: cells, refused: errors, listPairs: listPairs.all,
            listPairsVisited: listPairs.visited, differences: differences.sorted(), costlySeeds: costly,
            seconds: elapsed.inSeconds
        ).jsonLine()
    }

    /// The table by size classes, the slow cases if they were looked for, and the totals.
    func report(after elapsed: Duration, costs: Bool) -> String {
        var lines = ["operations a side      cases          cells   every pair ms      indexed ms   ratio"]
        var first = 1
        for size in classes {
            if size.cases > 0 { lines.append(line(size, from: first)) }
            first = size.operationsMax + 1
        }
        let beyond = classes.filter { $0.operationsMax > 100 }.reduce(0) { $0 + $1.cases }
        lines.append("beyond 100 × 100: \(percent(beyond, of: cases)) of the cases; refused in both ways: \(errors)")
        lines.append(
            "pairs on lists: \(listPairs.all), not visited: \(unvisited(listPairs)); with the smallest blocks,"
                + " of \(smallBlockPairs.all) pairs of inserts, erases and updates: \(unvisited(smallBlockPairs))")
        if costs { lines += costLines }
        let seconds = max(elapsed.inSeconds, 1e-9)
        lines.append(
            "\(cases) cases, \(cells) cells, \(differences.count) differences, "
                + String(
                    format: "%.1f s, %.0f cases/s, %.1f million cells/s", seconds, Double(cases) / seconds,
                    Double(cells) / seconds / 1e6))
        return lines.joined(separator: "\n")
    }

    private var costLines: [String] {
        let header = "more than twice the cost of every pair, and half a millisecond: \(costlyCases) cases"
        let slowest = slowCases.sorted { $0.ratio.total > $1.ratio.total }.prefix(Self.listedSlowCasesMax)
        return [header + (slowest.isEmpty ? "" : "; the worst:")]
            + slowest.map {
                String(
                    format: "  %5.2f times (the merge alone %5.2f): seed %llu, %@", $0.ratio.total, $0.ratio.merge,
                    $0.seed, $0.size)
            }
    }

    private func line(_ size: SizeClass, from first: Int) -> String {
        let range = "\(first)–\(size.operationsMax)"
        let (indexed, everyPair) = (size.indexed.total.inMilliseconds, size.everyPair.total.inMilliseconds)
        return range + String(repeating: " ", count: max(0, 17 - range.count))
            + String(
                format: "%11ld%15ld%16.1f%16.1f%8.2f", size.cases, size.cells, everyPair, indexed,
                indexed / max(everyPair, 1e-6))
    }

    private func unvisited(_ pairs: ListPairs) -> String { percent(pairs.all - pairs.visited, of: pairs.all) }

    private func percent(_ part: Int, of whole: Int) -> String {
        String(format: "%.1f %%", 100 * Double(part) / Double(max(whole, 1)))
    }
}
