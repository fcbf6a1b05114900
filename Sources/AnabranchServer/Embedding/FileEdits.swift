public import AnabranchCore
import AnabranchExplain
public import Foundation

/// Transactions that people would call one edit: by one author, on objects that they have in common, without a long
/// pause between them (`Spec/Explain.md`, section 7).
public struct SyncedEdit: Equatable, Sendable, Identifiable {
    /// The version of its first transaction. All that `SyncServer.edits` says of one edit has the same.
    public let id: ServerVersion
    /// The place after its newest transaction in the log.
    public fileprivate(set) var cursor: ChangeCursor
    /// The number of its transactions. Those of others may lie between them.
    public fileprivate(set) var transactionCount = 1
    /// The author of them all.
    public let author: SyncedTransaction.Author
    /// The times of the first and the last change, by the author's clock.
    public fileprivate(set) var dates: ClosedRange<Date>
    /// The changed objects, each once, in the order in which the edit first names them, with all that it did to them.
    public fileprivate(set) var objects: [ChangedObject] = []
    /// True if it adds or erases classes or columns.
    public fileprivate(set) var changesSchema = false

    fileprivate init(_ transaction: SyncedTransaction) {
        id = transaction.version
        cursor = transaction.cursor
        author = transaction.author
        dates = transaction.date...transaction.date
    }
}

/// Puts the transactions of a log, in their order, together to edits.
struct EditFeed {
    /// The edits that may still become longer. With more of them, the one that was changed longest ago ends.
    static let openMax = 128
    /// An edit ends when it has this many objects, since each one in it is a copy.
    static let objectsMax = 1_000

    private struct OpenEdit {
        var edit: SyncedEdit
        /// Where each object stands among those of the edit.
        var places: [Name: Int] = [:]

        mutating func add(_ transaction: SyncedTransaction) {
            edit.cursor = transaction.cursor
            edit.dates = min(edit.dates.lowerBound, transaction.date)...max(edit.dates.upperBound, transaction.date)
            edit.changesSchema = edit.changesSchema || transaction.changesSchema
            for object in transaction.objects {
                if let place = places[Name(object)] {
                    edit.objects[place].goOn(with: object.change)
                } else {
                    places[Name(object)] = edit.objects.count
                    edit.objects.append(object)
                }
            }
        }

        /// True if both are on one of the same objects, or on the schema alone.
        func goesOn(with transaction: SyncedTransaction) -> Bool {
            if edit.objects.isEmpty || transaction.objects.isEmpty {
                return edit.objects.isEmpty && transaction.objects.isEmpty
            }
            return transaction.objects.contains { places[Name($0)] != nil }
        }
    }

    private struct Name: Hashable {
        let className: ExactString
        let key: PrimaryKey

        init(_ object: ChangedObject) { (className, key) = (ExactString(object.className), object.key) }
    }

    /// Ends an edit, in seconds.
    let pause: TimeInterval
    /// In the order of their newest transactions.
    private var open: [OpenEdit] = []

    init(pause: TimeInterval) { self.pause = pause }

    /// Adds the transaction after those that were added.
    /// - Returns: the edit that it belongs to, as it is now.
    mutating func add(_ transaction: SyncedTransaction) -> SyncedEdit {
        open.removeAll { open in
            open.edit.author == transaction.author
                && abs(open.edit.dates.upperBound.timeIntervalSince(transaction.date)) > pause
        }
        let place = open.lastIndex { $0.edit.author == transaction.author && $0.goesOn(with: transaction) }
        var edit = place.map { open.remove(at: $0) } ?? OpenEdit(edit: SyncedEdit(transaction))
        if place != nil { edit.edit.transactionCount += 1 }
        edit.add(transaction)
        if edit.edit.objects.count < Self.objectsMax {
            open.append(edit)
            if open.count > Self.openMax { open.removeFirst() }
        }
        return edit.edit
    }
}

/// The edits of a synced file after a cursor, as `SyncServer.edits` hands them out.
public struct FileEdits: AsyncSequence, Sendable {
    /// An edit, after each of its transactions.
    public typealias Element = SyncedEdit

    /// The pause that ends an edit by default, in seconds: five minutes.
    public static let usualPause = TimeInterval(EditGroups.pauseMilliseconds) / 1_000

    let changes: FileChanges
    let pause: TimeInterval

    /// An iterator that begins after the cursor. Each iterator is independent of the others.
    public func makeAsyncIterator() -> Iterator {
        Iterator(changes: changes.makeAsyncIterator(), feed: EditFeed(pause: pause))
    }

    /// One reader of the sequence. It holds one page of the log, and the edits that may still become longer.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate var changes: FileChanges.Iterator
        fileprivate var feed: EditFeed

        /// Waits for the next transaction.
        /// - Returns: the edit that it belongs to; nil when the server or the task ends.
        /// - Throws: as `FileChanges.Iterator.next`.
        public mutating func next() async throws -> SyncedEdit? { try await changes.next().map { feed.add($0) } }
    }
}
