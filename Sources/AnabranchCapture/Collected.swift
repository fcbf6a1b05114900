import AnabranchCore

/// The changes to objects that entries of the history mean (`Spec/Capture.md`, section 5).
struct Collected {
    /// The newest entry.
    var newest: Int64
    /// The changes, the objects that others link to first.
    var changes: [ObjectChange] = []
    /// The rows whose objects are to win, since their rules let nothing be sent.
    var refused: [DirtyObject] = []
    /// The map of the rows that were read, by their keys; nil for rows that have no object any more.
    var map: [RowKey: (guid: UUIDBytes, seen: RowDigest?)?] = [:]
    /// References to rows that have no object.
    var dangling: [DanglingReference] = []
    /// Values that no object can hold.
    var issues: [CaptureConflict] = []
}

/// A change to one object.
struct ObjectChange: Sendable {
    enum Kind: Sendable { case create, update, erase }

    let table: Int64
    let className: String
    let guid: UUIDBytes
    var kind: Kind
    /// The new values by property. A link is null in the end if there is no object with its key.
    var fields: [(property: String, value: Payload)]
    /// True if the values of an object in whose place others come are kept, and a null takes the place of none.
    var wins = false

    init(
        of table: CapturedTable, _ guid: UUIDBytes, _ kind: Kind, _ fields: [(property: String, value: Payload)] = []
    ) {
        (self.table, className) = (table.number, table.name)
        (self.guid, self.kind, self.fields) = (guid, kind, fields)
    }
}

/// An object of the replica that may differ from its row.
struct DirtyObject: Hashable {
    let table: Int64
    let guid: UUIDBytes
}

/// A row that refers to one that has no object.
struct DanglingReference {
    let target: RowKey
    let row: RowKey
    let column: Int
}
