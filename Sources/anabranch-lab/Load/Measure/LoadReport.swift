import AnabranchTestClient

/// The measurements of a load: the JSON line that it prints.
struct LoadReport: Encodable {
    /// The name of the subcommand.
    var load: String
    /// The options of the load, and whatever else is needed to repeat it.
    var options: [String: Double]
    /// The time from the beginning of the load to its end, without preparation.
    var seconds: Double
    /// The number of operations of the load, and their name.
    var operations: Int
    var operation: String
    /// The server's message, if it did not take what it was sent.
    var refusal: String?
    var latencyMs: [String: Percentiles]
    /// The bytes on the wire during the load, seen from here; heads of frames are not counted.
    var bytes: Traffic.Bytes
    /// Whatever else the load has counted.
    var counts: [String: Double]
    /// Nil if the process of the server is not known.
    var server: ServerFigures?
    /// Nil if the load runs without bystanders.
    var bystander: BystanderFigures?
}

/// The results that only the load itself knows; everything else is measured around it.
struct LoadOutcome: Sendable {
    /// The number of operations.
    var operations: Int
    /// The name of the operation, a noun.
    var operation: String
    var refusal: String?
    var latencies: [String: [Duration]] = [:]
    var counts: [String: Double] = [:]
}
