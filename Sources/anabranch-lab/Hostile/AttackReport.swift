import Foundation
import Synchronization

/// Prints what was measured of an attack, a line a figure, and if it is within its bounds, a line a bound.
final class AttackReport: Sendable {
    private let attack: String
    private let missed = Atomic(0)

    init(_ attack: String) { self.attack = attack }

    /// The number of bounds that were missed.
    var missedCount: Int { missed.load(ordering: .relaxed) }

    func figure(_ name: String, _ value: Double, _ unit: String = "") {
        write("figure \(name) \(Self.text(value))\(Self.suffix(unit))")
    }

    func figure(_ name: String, _ words: String) { write("figure \(name) \(words.prefix(300))") }

    /// - Parameter value: nil counts as a miss: there is nothing to show.
    func bound(_ name: String, _ value: Double?, atMost limit: Double, _ unit: String = "") {
        verdict(name, value, "<=", limit, unit, isKept: value.map { $0 <= limit } ?? false)
    }

    func bound(_ name: String, _ value: Double?, atLeast limit: Double, _ unit: String = "") {
        verdict(name, value, ">=", limit, unit, isKept: value.map { $0 >= limit } ?? false)
    }

    private func verdict(
        _ name: String, _ value: Double?, _ sign: String, _ limit: Double, _ unit: String, isKept: Bool
    ) {
        if !isKept { missed.add(1, ordering: .relaxed) }
        let shown = value.map(Self.text) ?? "none"
        write("verdict \(name) \(shown) \(sign) \(Self.text(limit))\(Self.suffix(unit)) \(isKept ? "kept" : "missed")")
    }

    private static func suffix(_ unit: String) -> String { unit.isEmpty ? "" : " \(unit)" }

    private static func text(_ value: Double) -> String {
        value == value.rounded() && abs(value) < 1e15 ? "\(Int(value))" : String(format: "%.2f", value)
    }

    /// Writes a line at once: people who wait see how far the run is, and a run that is cut off has printed what it
    /// knew.
    private func write(_ line: String) {
        FileHandle.standardOutput.write(Data("\(attack) \(line)\n".utf8))
    }
}
