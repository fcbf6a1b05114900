import AnabranchCore

/// The entries of an UPLOAD or a DOWNLOAD, in the order of the log that they come from. All of them have been found
/// well formed, and they stay in the bytes in which they travel.
struct BodyEntries<Entry: BodyEntry>: Sequence, Sendable {
    /// The number of entries.
    private(set) var count = 0
    /// The sum of the sizes of their changesets.
    private(set) var changesetBytes = 0
    private let body: NumberReader

    /// - Parameters:
    ///   - body: where the entries begin; they end with its bytes.
    ///   - countMax: how many there may be.
    init(_ body: NumberReader, countMax: Int = .max) throws(ProtocolError) {
        self.body = body
        var rest = body
        while rest.remaining > 0 {
            let changeset = try Self.next(&rest).changeset
            guard count < countMax else {
                throw ProtocolError(.badSyntax, "\(Entry.message): more than \(countMax) changesets")
            }
            guard Entry.allowsEmptyChangesets || !changeset.isEmpty else {
                throw ProtocolError(.badChangesetSize, "\(Entry.message): changeset without a byte")
            }
            changesetBytes += changeset.count
            count += 1
        }
    }

    init(_ entries: [Entry]) {
        body = NumberReader([UInt8](encoding: entries), from: 0)
        count = entries.count
        changesetBytes = entries.reduce(0) { $0 + $1.changeset.count }
    }

    /// The bytes as they travel, before they are deflated.
    var bytes: ArraySlice<UInt8> { body.bytes[body.position...] }

    var underestimatedCount: Int { count }

    func makeIterator() -> Iterator { Iterator(rest: body) }

    struct Iterator: IteratorProtocol {
        fileprivate var rest: NumberReader

        mutating func next() -> Entry? {
            guard rest.remaining > 0, let (numbers, changeset) = try? BodyEntries.next(&rest) else { return nil }
            var entry = numbers
            entry.changeset = Array(changeset)
            return entry
        }
    }

    /// The numbers of an entry, and its changeset as a window on the body.
    fileprivate static func next(
        _ body: inout NumberReader
    ) throws(ProtocolError) -> (numbers: Entry, changeset: ArraySlice<UInt8>) {
        let entry = try Entry(numbersFrom: &body)
        let changesetBytes: UInt64 = try body.entryNumber(of: Entry.self)
        guard changesetBytes <= UInt64(body.remaining) else {
            throw ProtocolError(.badChangesetSize, "\(Entry.message): changeset longer than the rest of the body")
        }
        return (entry, body.skip(count: Int(changesetBytes)))
    }
}

/// Counts the entries of a body while more and more of it comes out of a zlib stream.
struct EntryCounter<Entry: BodyEntry> {
    private var count = 0
    /// The position of the first entry that was not complete.
    private var position = 0

    /// - Parameter begun: the body as far as it is known.
    /// - Returns: how many complete entries it begins with.
    mutating func count(in begun: [UInt8]) -> Int {
        var rest = NumberReader(begun, from: position)
        while rest.remaining > 0, (try? BodyEntries<Entry>.next(&rest)) != nil {
            count += 1
            position = rest.position
        }
        return count
    }
}

extension BodyEntries: Equatable {
    /// The same numbers can be written with zeros in front.
    static func == (left: Self, right: Self) -> Bool { left.elementsEqual(right) }
}

/// A changeset with the numbers that stand before it in a body, each followed by a space; the last of them is the size
/// of the changeset in bytes, in all kinds of entries.
protocol BodyEntry: Equatable, Sendable {
    /// The message that has such entries, for errors.
    static var message: String { get }
    /// True if a changeset may have no bytes. Nobody sends such changesets, but only servers have ever been free to.
    static var allowsEmptyChangesets: Bool { get }

    var changeset: [UInt8] { get set }

    /// Reads all numbers but the last one; the changeset is left empty.
    init(numbersFrom body: inout NumberReader) throws(ProtocolError)

    /// Appends all numbers but the last one.
    func writeNumbers(to body: inout [UInt8])
}

/// An entry of an UPLOAD (`Spec/Protocol.md`, section 4.4):
///
///     <client version> <server version> <origin timestamp> <origin file ident> <changeset size> <changeset bytes>
extension UploadedChangeset: BodyEntry {
    static var message: String { "upload" }
    static var allowsEmptyChangesets: Bool { false }

    func writeNumbers(to body: inout [UInt8]) {
        body.append(entryNumber: cursor.clientVersion)
        body.append(entryNumber: cursor.serverVersion)
        body.append(entryNumber: timestamp)
        body.append(entryNumber: origin)
    }

    init(numbersFrom body: inout NumberReader) throws(ProtocolError) {
        self.init(
            cursor: UploadCursor(
                clientVersion: try body.entryNumber(of: Self.self), serverVersion: try body.entryNumber(of: Self.self)),
            timestamp: try body.entryNumber(of: Self.self), origin: try body.entryNumber(of: Self.self), changeset: [])
    }
}

/// An entry of a DOWNLOAD (`Spec/Protocol.md`, section 5.2):
///
///     <server version> <client version> <origin timestamp> <origin file ident>
///     <original changeset size> <changeset size> <changeset bytes>
extension DownloadedChangeset: BodyEntry {
    static var message: String { "download" }
    static var allowsEmptyChangesets: Bool { true }

    func writeNumbers(to body: inout [UInt8]) {
        body.append(entryNumber: cursor.serverVersion)
        body.append(entryNumber: cursor.clientVersion)
        body.append(entryNumber: tag.timestamp)
        body.append(entryNumber: tag.ident)
        body.append(entryNumber: originalBytes)
    }

    init(numbersFrom body: inout NumberReader) throws(ProtocolError) {
        self.init(
            cursor: DownloadCursor(
                serverVersion: try body.entryNumber(of: Self.self), clientVersion: try body.entryNumber(of: Self.self)),
            tag: OriginTag(
                timestamp: try body.entryNumber(of: Self.self), ident: try body.entryNumber(of: Self.self)),
            changeset: [], originalBytes: Int(clamping: try body.entryNumber(of: Self.self) as UInt64))
    }
}

extension [UInt8] {
    /// The bytes that the numbers of an entry usually take, so that memory is reserved once.
    private static var entryNumbersBytesExpected: Int { 64 }

    /// A body, not deflated.
    init(encoding entries: [some BodyEntry]) {
        self = []
        reserveCapacity(entries.reduce(0) { $0 + $1.changeset.count + Self.entryNumbersBytesExpected })
        for entry in entries {
            entry.writeNumbers(to: &self)
            append(entryNumber: entry.changeset.count)
            append(contentsOf: entry.changeset)
        }
    }

    fileprivate mutating func append(entryNumber number: some FixedWidthInteger) {
        append(decimal: number)
        append(UInt8(ascii: " "))
    }

    fileprivate mutating func append(entryNumber number: some TypedNumber) { append(entryNumber: number.rawValue) }
}

extension NumberReader {
    fileprivate mutating func entryNumber<Number: TypedNumber>(
        of entry: (some BodyEntry).Type
    ) throws(ProtocolError) -> Number {
        Number(rawValue: try entryNumber(of: entry))
    }

    fileprivate mutating func entryNumber<Entry: BodyEntry>(of entry: Entry.Type) throws(ProtocolError) -> UInt64 {
        guard let value = number(), skip(UInt8(ascii: " ")) else {
            throw ProtocolError(.badChangesetHeader, "\(Entry.message): bad number in front of a changeset")
        }
        return value
    }
}
