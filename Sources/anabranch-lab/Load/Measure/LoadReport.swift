import AnabranchTestClient

/// What a load has measured: the JSON line that it prints.
struct LoadReport: Encodable {
    /// The name of the subcommand.
    var load: String
    /// What it was told, and what else one has to know to repeat it.
    var options: [String: Double]
    /// From the beginning of the load to its end, without preparation.
    var seconds: Double
    /// How often the load did what it consists of, and what that is.
    var operations: Int
    var operation: String
    /// The server's words, if it did not take what it was sent.
    var refusal: String?
    var latencyMs: [String: Percentiles]
    /// On the wire during the load, seen from here; heads of frames are not counted.
    var bytes: Traffic.Bytes
    /// Whatever else the load has counted.
    var counts: [String: Double]
    /// Nil if the process of the server is not known.
    var server: ServerFigures?
    /// Nil if the load stands no one in the way.
    var bystander: BystanderFigures?
}

/// What a load has to say about itself; everything else is measured around it.
struct LoadOutcome: Sendable {
    /// How often it did what it consists of.
    var operations: Int
    /// What that is, as a noun.
    var operation: String
    var refusal: String?
    var latencies: [String: [Duration]] = [:]
    var counts: [String: Double] = [:]
}
