/// The name of a row: the schema, an object, a part of an object, or a link to an object.
public struct RowAddress: Hashable, Sendable {
    /// 0 for the schema's row. For links 2^31 more than the number of the class that is linked to.
    public var classID: ClassID
    /// The object's primary key, as bytes that sort like keys; empty for the schema's row. For a link it also says
    /// whose link it is.
    public var key: [UInt8]
    /// 0 but for a part of an object; below 2^63.
    public var part: UInt64

    /// The address of a row; the default is that of an object itself.
    public init(classID: ClassID, key: [UInt8], part: UInt64 = 0) {
        self.classID = classID
        self.key = key
        self.part = part
    }

    package static let schema = RowAddress(classID: ClassID(0), key: [])

    init(_ object: ObjectReference) { self.init(classID: object.classID, key: object.key.rowKey) }

    func part(_ number: UInt64) -> RowAddress { RowAddress(classID: classID, key: key, part: number) }
}

/// The rows that a store writes and removes, in one transaction with the log entry that leads to them.
public struct RowWrites: Sendable {
    /// The erased classes, all of whose rows are removed first.
    public internal(set) var erasedClasses: [ClassID] = []
    /// The rows to remove; each address is made when it is read.
    public var removed: some Collection<RowAddress> { removals.lazy.flatMap { $0.addresses } }
    /// The rows to add or replace.
    public internal(set) var rows: [(address: RowAddress, bytes: [UInt8])] = []
    /// The contents of objects before and after the changes, if requested (`rowWrites(of:noting:)`).
    package internal(set) var noted: [NotedChange] = []
    var removals: [RowRemoval] = []
    /// The number of times that a content was looked at to find out if it is large.
    var lookCount = 0

    /// Nothing to write.
    public init() {}

    /// Rows as another store has them.
    package init(copied rows: [(address: RowAddress, bytes: [UInt8])]) { self.rows = rows }

    mutating func write(_ content: [UInt8], at address: RowAddress) {
        rows.append((address, RowChecksum.row(of: content, at: address)))
    }
}
