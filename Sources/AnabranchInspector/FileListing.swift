import AnabranchHistory
import Synchronization

/// All synced files, listed again when somebody asks and the list has become old: several people look at it at a time.
final class FileListing: Sendable {
    /// The most files of a list.
    static let countMax = 100_000
    /// How long a list is shown again: for some seconds, and longer where making it takes long.
    private static let age = Duration.seconds(2), ageOfMaking = 50

    struct Listing: Sendable {
        /// In the order of their paths.
        var files: [CatalogFile] = []
        /// True if there are more.
        var isCut = false
    }

    private let catalog: any HistoryCatalog
    private let last = Mutex<(listing: Listing, end: ContinuousClock.Instant)?>(nil)

    init(_ catalog: any HistoryCatalog) { self.catalog = catalog }

    /// The files now, or a moment ago. A request during the making of another one's list gets the same list.
    func listing() throws -> Listing {
        try last.withLock { last in
            let start = ContinuousClock.now
            if let last, last.end > start { return last.listing }
            var listing = Listing(), path: VirtualPath?
            repeat {
                let page = try catalog.files(after: path, countMax: Self.pageCount)
                listing.files += page
                path = page.count == Self.pageCount ? page.last?.path : nil
                listing.isCut = path != nil && listing.files.count >= Self.countMax
            } while path != nil && !listing.isCut
            let end = ContinuousClock.now
            last = (listing, end + max(Self.age, (end - start) * Self.ageOfMaking))
            return listing
        }
    }

    private static let pageCount = 1_000
}
