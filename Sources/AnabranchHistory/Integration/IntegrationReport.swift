public import AnabranchCore

/// What became of the queued uploads of one file.
public struct IntegrationReport: Equatable, Sendable {
    /// One for each client file that had something queued, in ascending order of ident.
    public var outcomes: [ClientOutcome] = []
    /// Whether the log has grown: then every running session has something to download.
    public var madeVersions = false
    /// Log entries, or reciprocal changesets in their place, that were decoded to merge the uploads with them.
    public var entriesVisited = 0
}

/// What became of the queued uploads of one client file.
public struct ClientOutcome: Equatable, Sendable {
    /// The client file.
    public var ident: ClientFileID
    /// How many log entries its changesets became.
    public var newVersions: Int
    /// `badChangeset`, `destructiveSchemaChange`, `badOriginFileIdent` or `clientFileExpired`; or trouble of the store
    /// with what these changesets meet, `storeDamaged` or `storeFailed`. Then nothing of what was queued has left a
    /// trace.
    public var refusal: HistoryError?
    /// What did not enter the log because somebody else has erased its class or column meanwhile.
    public var skippedInstructions = SkippedInstructions()
    /// How many log entries of the server's own follow its changesets, to put nulls back into sets from which it has
    /// taken them in a way that no client can download (`Spec/History.md`, section 16.3).
    public var entriesRestoringNulls = 0
}

/// Instructions that did not enter the log (`Spec/History.md`, section 16.1).
public struct SkippedInstructions: Equatable, Sendable {
    /// How many there are.
    public private(set) var count = 0
    /// Why the first of them cannot be applied, with its place.
    public private(set) var firstReason: ApplyError?

    mutating func append(_ reason: ApplyError) {
        firstReason = firstReason ?? reason
        count += 1
    }

    mutating func append(_ others: SkippedInstructions) {
        firstReason = firstReason ?? others.firstReason
        count += others.count
    }
}
