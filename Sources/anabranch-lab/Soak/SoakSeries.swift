/// A value that is measured again and again, and must not grow.
struct SoakSeries: Sendable {
    let name: String
    let unit: String
    /// The amount by which the last third may exceed the one before.
    let slack: Double
    private(set) var samples: [(second: Double, value: Double)] = []

    init(_ name: String, unit: String, slack: Double = 8) { (self.name, self.unit, self.slack) = (name, unit, slack) }

    mutating func add(_ value: Double, at second: Double) { samples.append((second, value)) }

    /// The highest value of each third of the time.
    func peaks(of seconds: Double) -> [Double] {
        (0..<3).map { third in
            let range = seconds * Double(third) / 3..<seconds * Double(third + 1) / 3
            return samples.lazy.filter { range.contains($0.second) }.map(\.value).max() ?? 0
        }
    }

    func hasGrown(in seconds: Double) -> Bool {
        let peaks = peaks(of: seconds)
        return peaks[2] > peaks[1] + slack
    }

    /// The growth per hour, by the line that best fits the samples after the first third.
    func slope(of seconds: Double) -> Double {
        let late = samples.filter { $0.second >= seconds / 3 }, count = Double(late.count)
        guard count > 1 else { return 0 }
        let x = late.reduce(0) { $0 + $1.second } / count, y = late.reduce(0) { $0 + $1.value } / count
        let variance = late.reduce(0) { $0 + ($1.second - x) * ($1.second - x) }
        guard variance > 0 else { return 0 }
        return late.reduce(0) { $0 + ($1.second - x) * ($1.value - y) } / variance * 3_600
    }
}

/// The results of a soak.
struct SoakReport {
    var series: [SoakSeries]
    var seconds: Double
    var counts: [(name: String, count: Int)]
    /// Clients with another state than the others of their file.
    var divergedClients: [String]

    var failedCount: Int { series.count { $0.hasGrown(in: seconds) } + divergedClients.count }

    var text: String {
        var lines = [counts.map { "\($0.count) \($0.name)" }.joined(separator: ", ")]
        lines.append("highest of            first third   second third   last third   an hour")
        for series in series {
            let peaks = series.peaks(of: seconds).map { "\(Int($0.rounded()))" }
            let slope = "\((series.slope(of: seconds) * 10).rounded() / 10)"
            let name = "\(series.name), \(series.unit)"
            lines.append(
                name.padded(20) + peaks[0].padded(-13) + peaks[1].padded(-15) + peaks[2].padded(-13)
                    + slope.padded(-10) + (series.hasGrown(in: seconds) ? "  GROWN" : ""))
        }
        lines += divergedClients.map { "FAILED: \($0)" }
        lines.append("\(series.count - series.count { $0.hasGrown(in: seconds) }) passed, \(failedCount) failed")
        return lines.joined(separator: "\n")
    }
}

extension String {
    /// The text with spaces after it, or before it if the width is negative.
    fileprivate func padded(_ width: Int) -> String {
        let spaces = String(repeating: " ", count: max(0, abs(width) - count))
        return width < 0 ? spaces + self : self + spaces
    }
}
