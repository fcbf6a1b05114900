public import AnabranchCore

/// A client file that keeps entries of a log from being trimmed.
public struct ClientFilePin: Equatable, Sendable {
    /// The number of the client file in its synced file.
    public let ident: ClientFileID
    /// The version after which it may need all entries.
    public let version: ServerVersion
    /// When its client was last seen, in seconds since 1970.
    public let lastSeen: UInt64
}

/// Finds out how much of a log is no longer needed, page by page through the client files (`Spec/BoundedHistory.md`,
/// section 6). Commits between two pages do no harm: the store refuses to trim entries that are still needed.
package struct PinScan {
    /// The number of client files that are read for a page.
    package static let pageCount = 1_000

    /// The version up to which entries may go, as far as the scan has come.
    package private(set) var floor: ServerVersion
    /// The pin of the client file that needs the most; nil if everything up to the limit may go.
    package private(set) var lowest: ClientFilePin?
    package private(set) var isDone = false
    private let excluded: ClientFileID?
    private var last = ClientFileID(rawValue: UInt64(ClientFile.reserved.count - 1))

    /// - Parameter limit: the version of the newest generation: a client that begins with nothing needs what follows
    ///   it.
    /// - Parameter excluded: a client file that is passed over.
    package init(upTo limit: ServerVersion, excluding excluded: ClientFileID? = nil) {
        floor = limit
        self.excluded = excluded
    }

    /// Looks at the next client files.
    /// - Parameter body: called with each of them that pins something, and its pin.
    package mutating func advance(
        over view: any FileView, countMax: Int = PinScan.pageCount,
        _ body: (ClientFile, ServerVersion) throws(HistoryError) -> Void = { _, _ in }
    ) throws(HistoryError) {
        let files = try view.clientFiles(after: last, countMax: countMax)
        let generations = Set(try view.generations().map(\.version))
        for file in files where file.ident != excluded {
            guard let pin = file.pin(among: generations) else { continue }
            if pin < floor {
                floor = pin
                lowest = ClientFilePin(ident: file.ident, version: pin, lastSeen: file.lastSeen)
            }
            try body(file, pin)
        }
        last = files.last?.ident ?? last
        isDone = files.count < countMax
    }
}
