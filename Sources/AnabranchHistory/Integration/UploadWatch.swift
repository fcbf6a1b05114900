import AnabranchCore

/// An upload during whose integration the process may have ended before.
public struct SuspectUpload: Equatable, Sendable {
    /// The number of times that this has happened.
    public var strikes: UInt64
    /// When the last integration that was under way began, in seconds since 1970.
    public var lastTried: UInt64

    /// Creates the record of an upload.
    public init(strikes: UInt64, lastTried: UInt64) {
        self.strikes = strikes
        self.lastTried = lastTried
    }
}

/// Remembers which uploads were being integrated when a process ended: one of them may have ended it. Calls come from
/// several threads.
public protocol UploadSuspects: Sendable {
    /// The record of an upload when its integration begins; nil if there is none.
    func find(_ upload: Checksum) -> SuspectUpload?
    /// Records before an integration, or a step of it, that it is under way. The note only has to outlast the process,
    /// not the machine.
    func begin(_ upload: Checksum, at time: UInt64)
    /// Records that an integration waits for its next step: if the process ends now, this upload has nothing to do with
    /// it.
    func pause(_ upload: Checksum)
    /// Forgets an upload whose integration has ended, with whatever outcome.
    func end(_ upload: Checksum)
}

/// Keeps an upload that ends the process from doing so over and over (`Spec/Durability.md`, section 5).
struct UploadWatch: Sendable {
    /// Once the process has ended this many times during the integration of one upload, that is not taken for an
    /// accident.
    static let strikesMax = 2
    /// The time for which such an upload is not tried again, in seconds; doubled each time that it ends the process
    /// again.
    private static let parkedSeconds: UInt64 = 300
    private static let parkedSecondsMax: UInt64 = 24 * 3600

    let suspects: any UploadSuspects
    let path: VirtualPath

    /// - Parameter changesets: the rest of an upload.
    /// - Returns: its name for the other methods; nil if nothing is left.
    /// - Throws: `uploadPutOff` for an upload that has ended the process too often: it is to come again later.
    func check(
        _ changesets: ArraySlice<UploadedChangeset>, from ident: ClientFileID, at time: UInt64
    ) throws(HistoryError) -> Checksum? {
        guard let first = changesets.first else { return nil }
        // After the process has ended, the client begins with the same changeset, perhaps with more after it.
        let name = Checksum(startOf: path).covering(first, from: ident)
        if let suspect = suspects.find(name), suspect.strikes >= Self.strikesMax {
            let doublings = min(suspect.strikes - UInt64(Self.strikesMax), 10)
            let parked = min(Self.parkedSeconds << doublings, Self.parkedSecondsMax)
            // If the clock was ahead at that time, nobody knows how long ago it is.
            let passed = time >= suspect.lastTried ? time - suspect.lastTried : parked
            try require(
                passed >= parked, .uploadPutOff,
                """
                the server has ended \(suspect.strikes) times while it integrated what client file \(ident) has \
                uploaded from client version \(first.cursor.clientVersion) on; it is tried again in \
                \(parked - min(passed, parked)) s
                """)
        }
        return name
    }

    func begin(_ name: Checksum?, at time: UInt64) { if let name { suspects.begin(name, at: time) } }

    /// Records the end of a step, even of one that fails: the next attempt can end the process as the ones before.
    func pause(_ name: Checksum?) { if let name { suspects.pause(name) } }

    /// Records that the upload is committed or refused.
    func end(_ name: Checksum?) { if let name { suspects.end(name) } }
}
