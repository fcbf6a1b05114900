import AnabranchCore

/// The objects that a user with some role could not read at some time within a range of the log, as far as its entries
/// touch them: changes made to them then must not be sent later.
struct HiddenObjects {
    private let role: ViewRole
    /// The state at the end of the range.
    private let state: ObjectGraph
    private var seen: Set<ObjectReference> = []
    private(set) var found: Set<ObjectReference> = []

    init(from role: ViewRole, endingAt state: ObjectGraph) {
        self.role = role
        self.state = state
    }

    /// To be called with the entries in their order. An object that has been touched before is looked at as the entry
    /// found it.
    ///
    /// - Parameter touched: the objects that it touches.
    mutating func record(
        _ entry: LogEntry, touching touched: [(ObjectReference, className: [UInt8])]
    ) throws(HistoryError) {
        var again: [(ObjectReference, className: [UInt8])] = []
        for (reference, className) in touched where !role[className].read.isAll {
            if !seen.insert(reference).inserted, !found.contains(reference) { again.append((reference, className)) }
        }
        guard !again.isEmpty, let image = try BeforeImage(of: entry) else { return }
        var before = state, none: Set<ObjectReference> = []
        let named = try image.apply(to: &before, passingOver: &none)
        for (reference, className) in again {
            guard !named.contains(reference) else {
                found.insert(reference)
                continue
            }
            let filter = role[className].read
            guard let object = try before.read(reference, filter.looks(at:)) else { continue }
            let isReadable = try filter.includes(object, in: before)
            if !isReadable { found.insert(reference) }
        }
    }
}
