extension Duration {
    package var inMilliseconds: Double { self / .milliseconds(1) }
    package var inSeconds: Double { self / .seconds(1) }
}

extension [Duration] {
    /// The median; the longer of the two middle ones if the count is even, zero if there is none.
    package var median: Duration { isEmpty ? .zero : sorted()[count / 2] }
}
