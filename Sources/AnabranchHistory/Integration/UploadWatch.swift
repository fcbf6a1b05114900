import AnabranchCore

/// An upload in whose integration the process may have ended before.
public struct SuspectUpload: Equatable, Sendable {
    /// How many times it has.
    public var strikes: UInt64
    /// When the integration began that was the last to be under way, in seconds since 1970.
    public var lastTried: UInt64

    /// Puts the parts together.
    public init(strikes: UInt64, lastTried: UInt64) {
        self.strikes = strikes
        self.lastTried = lastTried
    }
}

/// Remembers which uploads were being integrated when a process ended: one of them may have ended it. Calls come from
/// several threads.
public protocol UploadSuspects: Sendable {
    /// What is known of an upload when its integration begins; nil if nothing is.
    func find(_ upload: Checksum) -> SuspectUpload?
    /// Notes before an integration, or a step of it, that it is under way. To be there when the process ends is enough:
    /// the machine goes on.
    func begin(_ upload: Checksum, at time: UInt64)
    /// Notes that an integration waits for its next step: if the process ends now, it has nothing to do with it.
    func pause(_ upload: Checksum)
    /// Forgets an upload whose integration has come to an end, whatever it was.
    func end(_ upload: Checksum)
}

/// Keeps an upload that ends the process from doing it again and again (`Spec/Durability.md`, section 5).
struct UploadWatch: Sendable {
    /// So many ends of the process during the integration of one upload are no accident any more.
    static let strikesMax = 2
    /// How long such an upload is not tried again, in seconds; twice as long each time that it ends the process again.
    private static let parkedSeconds: UInt64 = 300
    private static let parkedSecondsMax: UInt64 = 24 * 3600

    let suspects: any UploadSuspects
    let path: VirtualPath

    /// - Parameter changesets: what is left of an upload.
    /// - Returns: its name for the other methods; nil if nothing is left.
    /// - Throws: `uploadPutOff` for an upload that has ended the process too often: it is to come again later.
    func check(
        _ changesets: ArraySlice<UploadedChangeset>, from ident: ClientFileID, at time: UInt64
    ) throws(HistoryError) -> Checksum? {
        guard let first = changesets.first else { return nil }
        // After the end of the process the client begins with the same changeset, perhaps with more behind it.
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

    /// Also if it comes to nothing: the next attempt can end the process as the ones before.
    func pause(_ name: Checksum?) { if let name { suspects.pause(name) } }

    /// It is committed, or refused.
    func end(_ name: Checksum?) { if let name { suspects.end(name) } }
}
