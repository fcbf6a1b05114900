import AnabranchTesting

/// A query that can be read is written so that it reads the same, and answered if it is one about the class.
func fuzzQuery(_ bytes: [UInt8]) -> String? {
    guard let queries else { return "there is no state to ask" }
    do { return try queries.problem(of: bytes) } catch { return "\(error)" }
}

private let queries = try? QueryFuzz()
