import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// A random run of clients, sessions and one server, with the invariants of `Spec/History.md`, section 13, checked on
/// the way. Everything follows from the seed.
final class Workload {
    struct Violation: Error, CustomStringConvertible {
        var description: String
    }

    /// The objects of the changesets.
    enum Profile: String {
        /// Objects, numbers, lists: a state is kept everywhere and has to agree.
        case data
        /// Classes and columns that come and go, whether they exist or not: the server is a relay, and changesets are
        /// compared, not applied.
        case schema
    }

    private final class Participant {
        var client: MemoryClient
        /// Each server version as it was applied there.
        var received: [ServerVersion: [UInt8]] = [:]
        var session: SessionProgress
        /// Every cursor that the client was told, for later IDENTs.
        var headers: [IdentRequest] = []
        var row: ClientFile

        init(_ client: MemoryClient, session: SessionProgress, row: ClientFile) {
            self.client = client
            self.session = session
            self.row = row
        }
    }

    private let profile: Profile
    private let test: TestStore
    private(set) var file: SyncedFile
    private var random: SeededRandom
    private var participants: [Participant] = []
    /// A client file that uploads nonsense, and how many there were before it.
    var rogue: SaltedFileID, replaced: UInt64 = 0
    private var rogueVersion: ClientVersion = 0
    private var reference = ReferenceServer()
    private var queued: [(ident: ClientFileID, upload: Upload)] = []
    private var clock: UInt64 = 1_000
    private var opened: UInt64
    private let cachedObjectsMax, tailBytesMax: Int
    /// True if uploads are merged in small steps, between which everything else goes on.
    private let isStepwise: Bool
    /// True if each changeset is a commit of its own.
    private let commitsChangesets: Bool
    /// Whether entries go that nobody needs any more, and how many did: proves that some go.
    let trims: Bool
    var trimmedCount: UInt64 = 0
    /// How many reciprocal forms were compared with what a client made: proves that the comparison happens.
    private(set) var comparedForms = 0
    private var downloadsTold: [ClientFileID: [ServerVersion]] = [:]
    init(_ kind: StoreKind, _ profile: Profile, seed: UInt64) throws {
        self.profile = profile
        random = SeededRandom(seed: seed)
        opened = seed &* 1000
        test = try TestStore(kind)
        cachedObjectsMax = seed % 2 == 0 ? 1 : 1000
        isStepwise = seed % 3 > 0
        tailBytesMax = [0, 600, 3000, 4 << 20][Int(seed / 2 % 4)]
        commitsChangesets = seed % 6 == 0
        trims = profile == .data && seed % 5 == 0
        file = try SyncedFile.open(
            in: test.store, seed: opened, keepsState: profile == .data, cachedObjectsMax: cachedObjectsMax,
            tailBytesMax: tailBytesMax, commitBytesMax: commitsChangesets ? 1 : nil)
        rogue = try file.allocateIdent()
        try keepsNothing(rogue.ident)
        for _ in 0..<3 { try join() }
    }

    func run(steps: Int, endingWith look: (SyncedFile) throws -> Void = { _ in }) throws {
        for _ in 0..<steps {
            try step()
            try TailComparison(file, test.store).check(using: &random)
        }
        try settle()
        try look(file)  // while its store is open
        try checkStored()
    }

    private func step() throws {
        if trims, below(12) == 0 { try trim() }
        let participant = participants[below(participants.count)]
        switch below(1000) {
        case 0..<380: try change(&participant.client)
        case 380..<600: try upload(participant)
        case 600..<710: try integrate()
        case 710..<720: try file.seal(SealingPolicy(entriesMax: 1 + below(8), bytesMax: 1 + below(400), restMin: 1))
        case 720..<900: try download(participant, isLost: below(10) == 0)
        case 900..<940: try connect(participant)
        case 940..<955: try rejectsMutatedIdent(participant)
        case 955..<970: rejectsIllegalUpload(participant)
        case 970..<985: try uploadNonsense()
        case 985..<988: try replaceRogue()
        case 988..<990: try file.writeProgress()
        case 990..<995: if participants.count < 6, file.head.baseVersion == 0 { try join() }
        default: try restart()
        }
    }

    func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &random) }

    func require(_ holds: Bool, _ what: @autoclosure () -> String) throws {
        if !holds { throw Violation(description: what()) }
    }

    // MARK: Clients

    private func join() throws {
        let ident = try file.allocateIdent()
        try require(ident.ident == ClientFileID(participants.count + 3) + replaced, "I-10: ident \(ident.ident)")
        let pairsPerStep = [1, 10, .max][participants.count % 3]
        var client = MemoryClient(ident, pairsPerStep: pairsPerStep, keepsState: profile == .data)
        if profile == .data { try client.commit(ChangesetWriter.schema, at: ChangesetTime(clock)) }
        let session = try file.identify(client.identRequest)
        guard let row = try file.clientFile(ident.ident) else { throw Violation(description: "the row is missing") }
        participants.append(Participant(client, session: session, row: row))
    }

    private func change(_ client: inout MemoryClient) throws {
        clock += UInt64(below(3))
        let skew = UInt64(below(4)) * 5
        for _ in 0...below(3) {
            var changes = RandomChanges(random)
            let changeset = profile == .data ? try changes.data(client.state) : changes.schema()
            random = changes.random
            try client.commit(changeset, at: ChangesetTime(clock + skew))
        }
    }

    private func connect(_ participant: Participant) throws {
        do {
            participant.session = try file.identify(participant.client.identRequest)
            // I-30: so is an IDENT built from any earlier DOWNLOAD that is not older than what was confirmed.
            let base = try file.newest(participant.client.ident)?.uploadCursor.serverVersion ?? 0
            for request in participant.headers where request.download.serverVersion >= base {
                _ = try file.identify(request)
            }
        } catch {
            throw Violation(description: "I-30: \(error)")
        }
        participant.client.startSession()
    }

    private func rejectsMutatedIdent(_ participant: Participant) throws {
        var request = participant.client.identRequest
        let expected: [HistoryError.Code]
        switch below(6) {
        case 0: (request.file.ident, expected) = (file.head.nextIdent + UInt64(below(3)), [.badClientFileIdent])
        case 1: (request.file.salt, expected) = (Salt(request.file.salt.rawValue ^ 1), [.divergingHistories])
        case 2: (request.latest.version, expected) = (file.version + 1, [.badServerVersion])
        case 3: (request.latest.salt, expected) = (Salt(request.latest.salt.rawValue ^ 1), [.divergingHistories])
        case 4:
            let base = try file.newest(participant.client.ident)?.uploadCursor.serverVersion ?? 0
            guard base > 0 else { return }
            (request.download.serverVersion, expected) = (base - 1, [.badServerVersion])
        default:
            let newest = try file.newest(participant.client.ident)?.uploadCursor.clientVersion ?? 0
            (request.download.clientVersion, expected) = (newest + 1, [.badClientVersion])
        }
        let found = try code { _ = try file.identify(request) }
        try require(found.map(expected.contains) == true, "I-31: \(request) got \(String(describing: found))")
    }

    // MARK: Uploads

    /// Sends the next message of a client, if it has one.
    @discardableResult
    private func upload(_ participant: Participant) throws -> Bool {
        guard let upload = participant.client.nextUpload(1 + below(5)) else { return false }
        if let rest = try participant.session.accept(upload) {
            if try file.recordProgress(rest, from: participant.client.ident, at: clock) { return true }
            try file.enqueue(rest, from: participant.client.ident)
            queued.append((participant.client.ident, rest))
        }
        return true
    }

    private func rejectsIllegalUpload(_ participant: Participant) {
        var upload = Upload(progress: participant.session.uploaded, lockedVersion: participant.session.lockedVersion)
        switch below(3) {
        case 0: upload.progress.serverVersion = participant.session.download.serverVersion + 1
        case 1: upload.lockedVersion = participant.session.download.serverVersion + 1
        default:
            upload.changesets = [UploadedChangeset(cursor: upload.progress, timestamp: 1, changeset: [])]
        }
        let before = participant.session
        #expect(throws: HistoryError.self) { try participant.session.accept(upload) }
        #expect(participant.session == before)
    }

    /// An upload that has to be refused, between good ones, from a client that does nothing else.
    private func uploadNonsense() throws {
        rogueVersion += 1
        var upload = Upload([ChangesetWriter.setting(1, to: 1), [0, 1, 2, 3]], from: rogueVersion)
        switch below(profile == .data ? 3 : 2) {
        case 0:
            upload.changesets[1].changeset = []
            upload.changesets[1].origin = 2
        case 1: break
        default: upload.changesets[1].changeset = ChangesetWriter.setting(99, to: 1)
        }
        // What comes before it would stay.
        if commitsChangesets { upload.changesets.removeFirst() }
        try file.enqueue(upload, from: rogue.ident)
    }

    private func integrate() throws {
        let before = file.version
        guard let report = try merge() else { return }
        var expected = 0
        if commitsChangesets, !isStepwise {
            for (ident, upload) in queued { try reference.integrate(upload, from: ident) }
            expected = queued.reduce(0) { $0 + $1.upload.changesets.count }
            queued = []
        }
        for outcome in report.outcomes {
            let isRogue = !participants.contains { $0.client.ident == outcome.ident }
            try require((outcome.refusal != nil) == isRogue, "I-18: \(outcome)")
            let changesets = queued.take(outcome.newVersions, from: outcome.ident)
            expected += changesets.count
            let upload = Upload(progress: UploadCursor(), changesets: changesets)
            if !changesets.isEmpty { try reference.integrate(upload, from: outcome.ident) }
        }
        if !isStepwise { try require(queued.allSatisfy(\.upload.changesets.isEmpty), "I-15: uploads stay queued") }
        try require(report.outcomes.map(\.ident) == report.outcomes.map(\.ident).sorted(), "the order of outcomes")
        try require(file.version == before + UInt64(expected), "I-15: \(file.version) after \(before)")
        try require(report.madeVersions == (expected > 0), "I-40")
        for participant in participants { try checkRow(of: participant) }
    }

    /// - Returns: nil if more steps are needed.
    private func merge() throws -> IntegrationReport? {
        guard isStepwise else { return try file.integrate(at: clock) }
        for _ in 0...below(40) {
            if let report = try file.stepIntegration(at: clock, isLong: below(2) == 0) { return report }
        }
        return nil
    }

    private func checkRow(of participant: Participant) throws {
        let row = try #require(try file.clientFile(participant.client.ident), "a row went away")
        let (old, new) = (participant.row, row)
        try require(
            new.uploadCursor.clientVersion >= old.uploadCursor.clientVersion
                && new.uploadCursor.serverVersion >= old.uploadCursor.serverVersion
                && new.lockedVersion >= old.lockedVersion, "I-11: \(old) became \(new)")
        participant.row = row
    }

    // MARK: Downloads

    private func download(_ participant: Participant, isLost: Bool = false) throws {
        let ident = participant.client.ident, previous = participant.session.download
        let batch = try file.downloads(for: ident).download(after: previous, byteBudget: below(4) * 40)
        try checkDownload(batch, after: previous, of: participant)
        participant.session.download = batch.progress.cursor
        if isLost { return try connect(participant) }
        try participant.client.integrate(batch) { participant.received[$0] = $1 }
        downloadsTold[ident, default: []] += batch.changesets.map(\.cursor.serverVersion)
        participant.headers.append(participant.client.identRequest)
        if below(3) == 0 { try checkReciprocity(of: participant) }
    }

    private func checkDownload(_ batch: Download, after previous: DownloadCursor, of participant: Participant)
        throws
    {
        let ident = participant.client.ident, log = reference.log
        let clientVersion = { (version: ServerVersion) in
            log.prefix(Int(version.rawValue)).last { $0.origin == ident }?.clientVersion ?? 0
        }
        for entry in batch.changesets {
            try require(entry.cursor.clientVersion == clientVersion(entry.cursor.serverVersion), "I-21: \(entry)")
            try require(entry.tag.ident != ident && entry.tag.ident > 0, "I-24: \(entry)")
        }
        try require(
            batch.progress.cursor.clientVersion == clientVersion(batch.progress.cursor.serverVersion),
            "I-21: \(batch.progress.cursor)")
        let range = VersionRange(after: previous.serverVersion, through: batch.progress.cursor.serverVersion)
        let wanted = log.filter { range.contains($0.version) && $0.origin != ident && !$0.changeset.isEmpty }
        try require(batch.changesets.map(\.cursor.serverVersion) == wanted.map(\.version), "I-22: versions")
        try require(batch.changesets.map(\.changeset) == wanted.map(\.changeset), "I-22: changesets")
        let row = try file.clientFile(ident)
        try require(
            previous.serverVersion <= batch.progress.cursor.serverVersion
                && batch.progress.cursor.serverVersion <= batch.progress.latest.version
                && batch.progress.upload == row?.uploadCursor
                && batch.progress.cursor.clientVersion <= batch.progress.upload.clientVersion
                && batch.progress.cursor.serverVersion >= batch.progress.upload.serverVersion
                && batch.progress.latest.version == file.version && batch.progress.latest.salt == file.head.versionSalt,
            "I-23: \(batch)")
        let total = log.last?.cumulativeSize ?? 0
        let here = range.last == 0 ? 0 : log[Int(range.last.rawValue) - 1].cumulativeSize
        try require(batch.progress.downloadableBytes == total - here, "I-28: \(batch.progress.downloadableBytes)")
    }

    // MARK: The server

    private func restart() throws {
        try test.restart()
        opened += 1
        let before = file.head
        queued.removeAll()
        file = try SyncedFile.open(
            in: test.store, seed: opened, keepsState: profile == .data, cachedObjectsMax: cachedObjectsMax,
            tailBytesMax: tailBytesMax, commitBytesMax: commitsChangesets ? 1 : nil)
        try require(file.head == before, "a restart changed the head")
        for participant in participants { try connect(participant) }
    }

    /// Lets everybody upload and download all there is, and compares.
    private func settle() throws {
        for _ in 0..<2 {
            for participant in participants {
                try connect(participant)
                while participant.session.download.serverVersion < file.version || !participant.client.isAcknowledged {
                    try download(participant)
                    while !participant.client.isAcknowledged, try upload(participant) {}
                    try integrate()
                }
                try checkReciprocity(of: participant)
            }
        }
        guard profile == .data else { return }
        var log = ObjectGraph()
        _ = try log.replay(reference.log)
        let server = try StateDigest(of: log)
        for participant in participants {
            let isEqual = try StateDigest(of: participant.client.state) == server
            try require(isEqual, "I-20: client \(participant.client.ident) differs")
        }
    }

    /// I-19: what the server has for a client is what the client made of it, as soon as it knows all of the client's
    /// changes.
    private func checkReciprocity(of participant: Participant) throws {
        // Any commit takes along how far clients have come, and drops what they need no more.
        try checkRow(of: participant)
        let client = participant.client, ident = client.ident, cursor = participant.row.uploadCursor
        let stored = Dictionary(
            try file.reciprocals(of: ident).map { ($0.version, $0.changeset) }, uniquingKeysWith: { $1 })
        for (version, bytes) in stored {
            let isOwn = reference.log[Int(version.rawValue) - 1].origin == ident
            try require(version > cursor.serverVersion && version <= file.version && !isOwn, "I-12: \(version)")
            try require(bytes == reference.form(of: version, for: ident), "reciprocal of \(version) for \(ident)")
        }
        guard client.newestChange <= cursor.clientVersion else { return }
        for entry in reference.log[Int(cursor.serverVersion.rawValue)...] where entry.origin != ident {
            guard let made = participant.received[entry.version] else { continue }
            comparedForms += 1
            let form = stored[entry.version] ?? entry.changeset
            try require(haveSameInstructions(made, form), "I-19: version \(entry.version) for client \(ident)")
        }
    }

    private func checkStored() throws {
        let log = try file.log(), whole = reference.log
        let reference = whole.dropFirst(Int(file.head.baseVersion.rawValue))
        try require(
            log.map {
                var entry = $0; entry.salt = 0; return entry
            } == Array(reference), "the log has other entries")
        try require(log.allSatisfy { $0.salt.isProof }, "I-2")
        for participant in participants {
            let ident = participant.client.ident, told = downloadsTold[ident] ?? []
            let wanted = whole.filter { $0.origin != ident && !$0.changeset.isEmpty }.map(\.version)
            try require(told == wanted, "I-22: client \(ident) was told other versions")
        }
        if profile == .data { try checkState(whole) }
        let rogues = try file.clientFile(rogue.ident)
        try require(rogues?.uploadCursor == UploadCursor(), "I-18: a refused client left a trace")
        try test.verify()
    }

    /// I-7: the stored state is what the log makes, and so is what the clients have.
    private func checkState(_ log: [LogEntry]) throws {
        var replayed = ObjectGraph()
        try require(try replayed.replay(log).skippedCount == 0, "I-7: the log cannot be applied")
        let expected = try StateDigest(of: replayed)
        for moment in ["before", "after"] {
            if moment == "after" { try restart() }
            let digest = try file.withState { try StateDigest(of: $0) }
            try require(digest == expected, "I-7: the state differs from the log \(moment) a restart")
        }
        try require(file.head.stateVersion == file.version, "the state is behind the log")
    }
}
