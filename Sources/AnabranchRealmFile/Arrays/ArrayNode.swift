/// An array, the only kind of node that a file is made of (`Spec/RealmFile.md`, section 2). All elements of an
/// `ArrayNode` are known to lie in the file.
struct ArrayNode {
    /// The unit of an array's width.
    enum Kind: UInt8 {
        /// Bits of an integer or a ref.
        case bits
        /// Bytes of an element.
        case bytes
        /// Nothing: the elements are bytes.
        case blob
    }

    static let headerBytes = 8

    let ref: Int
    let kind: Kind
    private let flags: UInt8
    private let narrowCount: UInt32
    private let start: UnsafeRawPointer?

    var width: Int { (1 << Int(flags & 7)) >> 1 }
    var count: Int { Int(narrowCount) }

    /// Reads the header at a ref, and checks that all elements stand before `end`.
    init(at ref: Int64, in bytes: ClearBytes, end: Int) throws(RealmFileError) {
        guard ref >= FileHeader.byteCount, ref & 7 == 0 else {
            throw .damaged("\(ref) stands where the ref of an array belongs")
        }
        guard ref <= Int64(end - Self.headerBytes) else {
            throw .damaged(at: Int(ref), "the array lies outside of the file, whose data end at \(end)")
        }
        let offset = Int(ref), header = try bytes.bytes(at: offset, count: Self.headerBytes)
        flags = header[4]
        narrowCount = UInt32(header[5]) << 16 | UInt32(header[6]) << 8 | UInt32(header[7])
        guard let kind = Kind(rawValue: flags >> 3 & 3) else {
            throw .damaged(at: offset, "an array of a kind that there is not")
        }
        (self.ref, self.kind) = (offset, kind)
        let byteCount = Self.byteCount(kind, (1 << Int(flags & 7)) >> 1, Int(narrowCount))
        guard byteCount <= end - offset - Self.headerBytes else {
            throw .damaged(at: offset, "an array of \(byteCount) bytes reaches over the end of the data at \(end)")
        }
        start = try bytes.bytes(at: offset + Self.headerBytes, count: byteCount).baseAddress
    }

    private static func byteCount(_ kind: Kind, _ width: Int, _ count: Int) -> Int {
        switch kind {
        case .bits: (count * width + 7) / 8
        case .bytes: count * width
        case .blob: count
        }
    }

    var byteCount: Int { Self.byteCount(kind, width, count) }
    /// The space that it takes in the file, in bytes.
    var spaceBytes: Int { Self.headerBytes + (byteCount + 7) / 8 * 8 }

    var isInner: Bool { flags & 0x80 != 0 }
    var hasRefs: Bool { flags & 0x40 != 0 }
    var hasContext: Bool { flags & 0x20 != 0 }

    // MARK: Elements

    /// An element of an array of integers; those of eight bits and more are signed.
    func integer(at index: Int) -> Int64 {
        switch width {
        case 0: 0
        case 1, 2, 4: Int64(load(index * width / 8, as: UInt8.self) >> UInt8(index * width % 8)) & (1 << width - 1)
        case 8: Int64(load(index, as: Int8.self))
        case 16: Int64(load(index, as: Int16.self))
        case 32: Int64(load(index, as: Int32.self))
        default: load(index, as: Int64.self)
        }
    }

    /// An element of an array of integers that are never negative.
    func unsigned(at index: Int) -> UInt64 {
        let value = UInt64(bitPattern: integer(at: index))
        return width >= 64 ? value : value & (1 << UInt64(width) - 1)
    }

    /// An element of the size of `Number`, the lowest byte first.
    func load<Number: FixedWidthInteger>(_ index: Int, as type: Number.Type) -> Number {
        let range = bytes(index * MemoryLayout<Number>.size..<(index + 1) * MemoryLayout<Number>.size)
        return Number(littleEndian: range.loadUnaligned(as: Number.self))
    }

    /// All bytes of the elements.
    var content: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: start, count: byteCount) }

    /// Some bytes of the content.
    func bytes(_ range: Range<Int>) -> UnsafeRawBufferPointer {
        // Indices from the file have been compared with the number of elements before; this catches mistakes in this
        // code.
        precondition(range.lowerBound >= 0 && range.upperBound <= byteCount)
        return UnsafeRawBufferPointer(start: start.map { $0 + range.lowerBound }, count: range.count)
    }

    // MARK: Checks

    /// - Parameter emptyMax: the elements that it may have if they take no bytes.
    func requireIntegers(emptyMax: Int = RealmFileLimits.emptyElementsMax) throws(RealmFileError) {
        guard kind == .bits else { throw .damaged(at: ref, "an array of bytes stands where integers belong") }
        guard width > 0 || count <= emptyMax else {
            throw .damaged(at: ref, "\(count) elements that take no bytes")
        }
    }

    func requireRefs() throws(RealmFileError) {
        guard hasRefs else { throw .damaged(at: ref, "an array without refs stands where one with refs belongs") }
        try requireIntegers()
    }

    /// The value of an element of an array with refs, which has to be a tagged number.
    func tagged(at index: Int, _ what: StaticString) throws(RealmFileError) -> Int {
        let value = integer(at: index)
        guard value & 1 == 1 else { throw .damaged(at: ref, "\(what) is not a number, but \(value)") }
        return Int(UInt64(bitPattern: value) >> 1)
    }

    /// A tagged number, or 0 where nothing has been written.
    func taggedOrZero(at index: Int, _ what: StaticString) throws(RealmFileError) -> Int {
        integer(at: index) == 0 ? 0 : try tagged(at: index, what)
    }
}
