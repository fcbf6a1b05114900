import AnabranchTesting

/// The times that something took, over all times that it was tried, in milliseconds. A percentile is a time that was
/// measured: the shortest one that the given percentage of all times do not exceed.
struct Percentiles: Encodable, Equatable {
    var count: Int
    /// Nil if there was nothing to measure.
    var p50: Double?
    var p99: Double?
    var max: Double?

    init(_ durations: [Duration]) {
        let sorted = durations.sorted()
        count = sorted.count
        p50 = sorted.percentile(50)?.inRoundedMilliseconds
        p99 = sorted.percentile(99)?.inRoundedMilliseconds
        max = sorted.last?.inRoundedMilliseconds
    }
}

extension [Duration] {
    /// The percentile of a sorted array.
    fileprivate func percentile(_ percent: Int) -> Duration? {
        isEmpty ? nil : self[(count * percent + 99) / 100 - 1]
    }
}

extension Duration {
    /// The milliseconds, rounded to a microsecond.
    var inRoundedMilliseconds: Double { inMilliseconds.rounded(places: 3) }
}

extension Double {
    func rounded(places: Int) -> Double {
        var factor = 1.0
        for _ in 0..<places { factor *= 10 }
        return (self * factor).rounded() / factor
    }
}
