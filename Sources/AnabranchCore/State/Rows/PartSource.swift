import Synchronization

/// The source of the rows of one object: its own, and those of its parts.
final class PartSource: Sendable {
    let rows: any ObjectRows
    let object: RowAddress
    private let className: [UInt8]
    private let reads: ReadCounter

    init(_ object: RowAddress, in rows: any ObjectRows, className: [UInt8] = [], reads: ReadCounter) {
        self.rows = rows
        self.object = object
        self.className = className
        self.reads = reads
    }

    /// The content of a row that is as it was written; nil if there is no such row.
    func row(_ part: UInt64 = 0) throws(ApplyError) -> [UInt8]? {
        let address = object.part(part)
        let stored: [UInt8]?
        do {
            stored = try rows.row(at: address)
        } catch {
            throw located(ApplyError(reading: error))
        }
        guard let row = stored else { return nil }
        return try check(row, at: address)
    }

    /// The content of a row that another one names.
    /// - Parameter isKept: true if the content stays in memory.
    func part(_ number: UInt64, isKept: Bool = false) throws(ApplyError) -> [UInt8] {
        guard let row = try row(number) else { throw located(.damaged("part \(number) of it is missing")) }
        if isKept { reads.add(row.count) }
        return row
    }

    /// A row without its checksum.
    func check(_ row: consuming [UInt8], at address: RowAddress) throws(ApplyError) -> [UInt8] {
        guard let content = RowChecksum.content(of: row, at: address) else {
            let name = address.part > 0 ? "part \(address.part) of it" : "the row"
            throw located(.damaged("\(name) is not what was written"))
        }
        return content
    }

    func decode<Result>(
        _ content: [UInt8], _ body: (inout RowDecoder) throws(ChangesetError) -> Result
    ) throws(ApplyError) -> Result {
        do {
            return try RowDecoder.decode(content, of: self, body)
        } catch {
            throw located(.damaged("a row cannot be read at byte \(error.offset)"))
        }
    }

    /// The error with the object whose rows are meant.
    private func located(_ error: ApplyError) -> ApplyError {
        var error = error
        if !className.isEmpty { (error.className, error.object) = (className, PrimaryKey(rowKey: object.key)) }
        return error
    }
}

/// A String or Binary that has a row of its own.
final class StoredValue: Sendable {
    let isText: Bool
    let byteCount: Int
    /// The number of the value among the parts of its object.
    let number: UInt64
    private let source: PartSource

    init(isText: Bool, byteCount: Int, number: UInt64, source: PartSource) {
        self.isText = isText
        self.byteCount = byteCount
        self.number = number
        self.source = source
    }

    /// The value itself.
    func content() throws(ApplyError) -> Content {
        let bytes = try source.part(number)
        return isText ? .string(bytes) : .binary(bytes)
    }
}

extension ContentElement {
    static func node(_ stored: StoredNode<PartSource>, isKept: Bool) throws(ApplyError) -> TreeNode<Self> {
        let row = try stored.source.part(stored.number, isKept: isKept)
        return try stored.source.decode(row) { decoder throws(ChangesetError) in try decoder.node(stored) }
    }
}

extension Content {
    /// A value that is stored, or the content itself.
    func read() throws(ApplyError) -> Content {
        if case .stored(let value) = self { return try value.content() }
        return self
    }

    /// False if it is elsewhere, or something in it may be.
    var isInMemory: Bool {
        switch self {
        case .stored, .object, .list, .set, .dictionary: false
        default: true
        }
    }

    /// Everything in memory.
    fileprivate func readAll() throws(ApplyError) -> Content {
        switch self {
        case .stored(let value): try value.content()
        case .object(let fields): .object(try fields.readAll())
        case .list(let list): .list(try list.readAll())
        case .set(let elements): .set(try elements.readAll())
        case .dictionary(let entries): .dictionary(try entries.readAll())
        default: self
        }
    }
}

extension CountedTree where Element: ContentElement {
    fileprivate func readAll() throws(ApplyError) -> CountedTree {
        CountedTree(
            try map { element throws(ApplyError) in
                var element = element
                element.content = try element.content.readAll()
                return element
            })
    }
}

extension Fields {
    /// Everything in memory, so that nothing can fail when the object is looked at.
    /// - Parameter isWanted: true for the slots to read; the others are null.
    func readAll(of isWanted: (Int) -> Bool = { _ in true }) throws(ApplyError) -> Fields {
        Fields(
            contents: try contents.enumerated().map { slot, content throws(ApplyError) in
                isWanted(slot) ? try content.readAll() : .null
            })
    }
}

/// Counts what was read of a state and stays in memory, by all of its copies together. Code that gives up a copy which
/// has read something has to call `forget`.
final class ReadCounter: Sendable {
    private let count = Atomic<Int>(0)

    /// The count in bytes.
    var bytes: Int { count.load(ordering: .relaxed) }

    func add(_ bytes: Int) { count.wrappingAdd(bytes, ordering: .relaxed) }

    /// Records that what was read since the count was at this many bytes is not in memory any more.
    func forget(beyond bytes: Int) { count.store(min(bytes, self.bytes), ordering: .relaxed) }
}
