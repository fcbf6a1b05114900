import AnabranchCore

/// Writes the binary form (`Spec/PropertyLists.md`, section 3): the whole first, containers before what they hold,
/// equal leaves of one type once, all numbers as short as they can be.
struct BinaryWriter {
    private var objects: [Object] = []
    private var leaves: [PropertyList: Int] = [:]
    private var count = WriteCount()
    private let limits: PropertyListLimits
    private var bytes = BinaryReader.magic

    private enum Object {
        case leaf(PropertyList)
        case array([Int])
        /// The keys, and after them as many values.
        case dictionary([Int])
    }

    /// The room for leaves that a document gets at first: most are short, and a table that grows is filled anew.
    private static let usualLeaves = 40

    static func document(_ root: PropertyList, _ limits: PropertyListLimits) throws(PropertyListError) -> [UInt8] {
        var writer = BinaryWriter(limits: limits)
        writer.leaves.reserveCapacity(Self.usualLeaves)
        _ = try writer.add(root, depth: 1)
        writer.writeObjects()
        return writer.bytes
    }

    private init(limits: PropertyListLimits) { self.limits = limits }

    // MARK: Numbering

    /// - Returns: the number of the object.
    private mutating func add(_ value: PropertyList, depth: Int) throws(PropertyListError) -> Int {
        try count.add(value, depth, limits)
        switch value {
        case .array(let values):
            let number = reserve()
            var content: [Int] = []
            content.reserveCapacity(values.count)
            for (index, value) in values.enumerated() {
                do { content.append(try add(value, depth: depth + 1)) } catch { throw error.inside(String(index)) }
            }
            objects[number] = .array(content)
            return number
        case .dictionary(let values):
            let number = reserve()
            var content: [Int] = []
            content.reserveCapacity(2 * values.count)
            for key in values.keys { content.append(try add(.string(key), depth: depth + 1)) }
            for (key, value) in values {
                do { content.append(try add(value, depth: depth + 1)) } catch {
                    throw error.inside(String(excerptOf: key.utf8))
                }
            }
            objects[number] = .dictionary(content)
            return number
        default: return try add(leaf: value)
        }
    }

    private mutating func reserve() -> Int {
        objects.append(.array([]))
        return objects.count - 1
    }

    private mutating func add(leaf value: PropertyList) throws(PropertyListError) -> Int {
        if let number = leaves[value] { return number }
        let hasNUL =
            switch value {
            case .string(let text): text.utf8.contains(0)
            case .illFormedString(let units): units.contains(0)
            default: false
            }
        guard !hasNUL else { throw PropertyListError(.badValue, "U+0000 is never written") }
        objects.append(.leaf(value))
        leaves[value] = objects.count - 1
        return objects.count - 1
    }

    // MARK: Bytes

    private mutating func writeObjects() {
        let referenceWidth = Self.width(of: objects.count - 1)
        var offsets: [Int] = []
        for object in objects {
            offsets.append(bytes.count)
            switch object {
            case .leaf(let value): write(value)
            case .array(let content):
                writeMarker(0xA, content.count)
                for number in content { append(number, referenceWidth) }
            case .dictionary(let content):
                writeMarker(0xD, content.count / 2)
                for number in content { append(number, referenceWidth) }
            }
        }
        let offsetsStart = bytes.count
        let offsetWidth = Self.width(of: offsetsStart)
        for offset in offsets { append(offset, offsetWidth) }
        bytes += [0, 0, 0, 0, 0, 0, UInt8(offsetWidth), UInt8(referenceWidth)]
        for number in [objects.count, 0, offsetsStart] { append(number, 8) }
    }

    private mutating func write(_ value: PropertyList) {
        switch value {
        case .bool(let flag): bytes.append(flag ? 9 : 8)
        case .integer(let number): write(number)
        case .real(let number):
            bytes.append(0x23)
            append(number.bitPattern, 8)
        case .date(let date):
            bytes.append(0x33)
            append(date.wholeSecondsSince2001.bitPattern, 8)
        case .data(let data):
            writeMarker(0x4, data.count)
            bytes += data
        case .string(let text) where text.utf8.allSatisfy { $0 < 0x80 }:
            writeMarker(0x5, text.utf8.count)
            bytes += text.utf8
        case .string(let text): write(Array(text.utf16))
        case .illFormedString(let units): write(units)
        case .array, .dictionary, .largeInteger, .refused: break  // are no leaves, or have been refused
        }
    }

    private mutating func write(_ units: [UInt16]) {
        writeMarker(0x6, units.count)
        for unit in units { append(unit, 2) }
    }

    /// Those of less than 8 bytes have no sign.
    private mutating func write(_ number: Int64) {
        let width = number < 0 ? 8 : Self.width(of: Int(number))
        bytes.append(0x10 | UInt8(width.trailingZeroBitCount))
        append(number, width)
    }

    private mutating func writeMarker(_ kind: UInt8, _ count: Int) {
        bytes.append(kind << 4 | UInt8(min(count, 15)))
        if count >= 15 { write(Int64(count)) }
    }

    private mutating func append(_ number: some FixedWidthInteger, _ width: Int) {
        for index in (0..<width).reversed() { bytes.append(UInt8(truncatingIfNeeded: number >> (8 * index))) }
    }

    /// The bytes that numbers up to this one take: 1, 2, 4 or 8.
    private static func width(of number: Int) -> Int {
        for width in [1, 2, 4] where number >> (8 * width) == 0 { return width }
        return 8
    }
}
