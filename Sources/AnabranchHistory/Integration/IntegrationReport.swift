public import AnabranchCore

/// The outcome of integrating the queued uploads of one file.
public struct IntegrationReport: Equatable, Sendable {
    /// The outcomes of the client files of which something was integrated or refused, in ascending order of ident.
    public var outcomes: [ClientOutcome] = []
    /// True if the log has grown: then every running session has something to download.
    public var madeVersions = false
    /// The number of log entries, or reciprocal changesets in their place, that were decoded to merge the uploads with
    /// them.
    public var entriesVisited = 0

    /// The number of uploads that were integrated, or refused, by client file: the first ones that it had queued. A
    /// large one is integrated by several commits, and counted by the last of them.
    package internal(set) var uploadsDone: [ClientFileID: Int] = [:]

    /// Adds the report of a later commit.
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

/// The outcome of integrating the queued uploads of one client file.
public struct ClientOutcome: Equatable, Sendable {
    /// The client file whose uploads were integrated.
    public var ident: ClientFileID
    /// The number of log entries that its changesets became.
    public var newVersions: Int
    /// `badChangeset`, `tooLarge`, `destructiveSchemaChange`, `badOriginFileIdent` or `clientFileExpired`; or a failure
    /// of the store with the data that these changesets meet: `storeDamaged`, `storeFailed` or `uploadPutOff`. Then
    /// nothing of the queued uploads is stored, except for changesets of an earlier commit.
    public var refusal: HistoryError?
    /// The instructions that did not enter the log because somebody else had erased their class or column.
    public var skippedInstructions = SkippedInstructions()
    /// The number of log entries of the server's own that follow its changesets, to put nulls back into sets from which
    /// it has taken them in a way that no client can download (`Spec/History.md`, section 16.3).
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
    /// The number of instructions.
    public private(set) var count = 0
    /// The reason why the first of them cannot be applied, with its place.
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
