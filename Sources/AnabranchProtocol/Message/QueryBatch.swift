public import AnabranchCore

/// The fields of a DOWNLOAD of flexible sync that are added to its progress (`Spec/FlexibleSync.md`, section 1.5).
public struct QueryBatch: Equatable, Sendable {
    /// The part of a bootstrap or of steady state that a download is. The numbers are those of the wire.
    public enum State: UInt8, CaseIterable, Sendable {
        /// A part of a bootstrap; another one follows.
        case more
        /// The last part of a bootstrap. Below version 14 also steady state, if the query version is the active one.
        case last
        /// Steady state: changes in the view. It is used in version 14 only.
        case steady
    }

    /// The subscription set of the bootstrap; in steady state the active one.
    public var version: QueryVersion
    /// The part that the download is.
    public var state: State
    /// An estimate of how much of the current download is done with this message, 0 … 1. It is sent in steps of
    /// 1/10000, and as 0 below version 12. A number outside of the range is sent as its nearer end, and NaN as 0.
    public var estimate: Double

    /// The fields of one DOWNLOAD; by default it completes what it is a part of.
    public init(version: QueryVersion, state: State, estimate: Double = 1) {
        self.version = version
        self.state = state
        self.estimate = estimate
    }

    /// The fields in the precision that a client of `protocolVersion` receives.
    package func asTold(in protocolVersion: ProtocolVersion) -> QueryBatch {
        QueryBatch(
            version: version, state: protocolVersion.hasBatchStates || state != .steady ? state : .last,
            estimate: protocolVersion.hasProgressEstimates ? Double(estimateSteps) / Double(Self.stepsOfAll) : 0)
    }

    private static let stepsOfAll = 10_000
    private var estimateSteps: Int { Int((min(max(0, estimate), 1) * Double(Self.stepsOfAll)).rounded()) }

    /// The estimate as text, such as 0, 0.4, 0.0625 or 1.
    var estimateText: String {
        guard estimateSteps < Self.stepsOfAll else { return "1" }
        let digits = String(Self.stepsOfAll + estimateSteps).dropFirst()
        let fraction = String(digits.reversed().drop { $0 == "0" }.reversed())
        return fraction.isEmpty ? "0" : "0." + fraction
    }
}

// MARK: - The wire

extension HeadWriter {
    /// `<query version> <batch> <progress>`
    mutating func write(_ batch: QueryBatch, in version: ProtocolVersion) {
        let told = batch.asTold(in: version)
        write(told.version)
        write(told.state.rawValue)
        write(raw: told.estimateText)
    }
}

extension HeadReader {
    mutating func batch(in version: ProtocolVersion) throws(ProtocolError) -> QueryBatch {
        let query: QueryVersion = try number()
        let state: UInt64 = version.hasBatchStates ? try number() : try flag() ? 1 : 0
        guard let state = QueryBatch.State(rawValue: UInt8(clamping: state)) else { throw syntax("batch state") }
        guard version.hasProgressEstimates else {
            _ = try number() as UInt64
            return QueryBatch(version: query, state: state, estimate: 0)
        }
        let estimate = try real()
        guard 0...1 ~= estimate else { throw syntax("progress out of range") }
        return QueryBatch(version: query, state: state, estimate: estimate)
    }
}
