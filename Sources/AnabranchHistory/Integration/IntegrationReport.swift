public import AnabranchCore

/// What became of the queued uploads of one file.
public struct IntegrationReport: Equatable, Sendable {
    /// One for each client file of which something was integrated or refused, in ascending order of ident.
    public var outcomes: [ClientOutcome] = []
    /// Whether the log has grown: then every running session has something to download.
    public var madeVersions = false
    /// Log entries, or reciprocal changesets in their place, that were decoded to merge the uploads with them.
    public var entriesVisited = 0

    /// How many uploads were integrated, or refused, by client file: the first ones that it had queued. A large one is
    /// integrated by several commits, and counted by the last of them.
    package internal(set) var uploadsDone: [ClientFileID: Int] = [:]

    /// Adds what a later commit did.
    mutating func append(_ later: IntegrationReport) {
        madeVersions = madeVersions || later.madeVersions
        entriesVisited += later.entriesVisited
        uploadsDone.merge(later.uploadsDone, uniquingKeysWith: +)
        for outcome in later.outcomes {
            if let index = outcomes.firstIndex(where: { $0.ident == outcome.ident }) {
                outcomes[index].append(outcome)
            } else {
                outcomes.append(outcome)
            }
        }
        outcomes.sort { $0.ident < $1.ident }
    }
}

/// What became of the queued uploads of one client file.
public struct ClientOutcome: Equatable, Sendable {
    /// The client file.
    public var ident: ClientFileID
    /// How many log entries its changesets became.
    public var newVersions: Int
    /// `badChangeset`, `tooLarge`, `destructiveSchemaChange`, `badOriginFileIdent` or `clientFileExpired`; or trouble
    /// of the store with what these changesets meet, `storeDamaged`, `storeFailed` or `uploadPutOff`. Then nothing of
    /// what was queued has left a trace, but for changesets that an earlier commit had taken.
    public var refusal: HistoryError?
    /// What did not enter the log because somebody else has erased its class or column meanwhile.
    public var skippedInstructions = SkippedInstructions()
    /// How many log entries of the server's own follow its changesets, to put nulls back into sets from which it has
    /// taken them in a way that no client can download (`Spec/History.md`, section 16.3).
    public var entriesRestoringNulls = 0

    fileprivate mutating func append(_ later: ClientOutcome) {
        newVersions += later.newVersions
        refusal = later.refusal
        skippedInstructions.append(later.skippedInstructions)
        entriesRestoringNulls += later.entriesRestoringNulls
    }
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
