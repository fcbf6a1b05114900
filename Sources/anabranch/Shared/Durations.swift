extension Duration {
    var inMilliseconds: Double { self / .milliseconds(1) }
    var inSeconds: Double { self / .seconds(1) }
}

extension [Duration] {
    /// The middle one, the longer of two; zero if there is none.
    var median: Duration { isEmpty ? .zero : sorted()[count / 2] }
}
