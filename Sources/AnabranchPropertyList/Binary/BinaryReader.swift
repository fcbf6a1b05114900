/// Reads the binary form (`Spec/PropertyLists.md`, section 3). Containers and long leaves are read once, however often
/// they are shared; what the whole would be with everything written out is counted.
struct BinaryReader {
    static let magic = Array("bplist00".utf8)

    private let bytes: [UInt8]
    private let limits: PropertyListLimits
    private let objectCount: Int
    private let root: Int
    private let offsetsStart: Int
    private let offsetWidth: Int
    private let referenceWidth: Int
    /// Containers and long leaves that have been or are being read.
    private var objects: [Int: Object] = [:]

    /// An object that has been read, or is being read.
    private struct Object {
        var value: PropertyList
        /// The containers that stand within each other, this one included.
        var height = 0
        /// With everything in it, as often as it stands there.
        var size = Size()
    }

    /// Numbers of values and of bytes.
    private struct Size {
        var values = 1
        var bytes = 0

        static func += (left: inout Size, right: Size) {
            // Neither can overflow: both are below a limit.
            left = Size(values: left.values + right.values, bytes: left.bytes + right.bytes)
        }
    }

    private static let trailerCount = 32

    init(_ bytes: [UInt8], _ limits: PropertyListLimits) throws(PropertyListError) {
        (self.bytes, self.limits) = (bytes, limits)
        let end = bytes.count - Self.trailerCount
        guard end >= Self.magic.count else { throw PropertyListError(.malformed, "no place for a trailer") }
        (offsetWidth, referenceWidth) = (Int(bytes[end + 6]), Int(bytes[end + 7]))
        guard 1...8 ~= offsetWidth, 1...8 ~= referenceWidth else {
            throw PropertyListError(.malformed, at: .init(offset: end + 6), "numbers of 0 or more than 8 bytes")
        }
        let numbers = [8, 16, 24].map { Int(exactly: Self.number(8, of: bytes, at: end + $0)) ?? .max }
        (objectCount, root, offsetsStart) = (numbers[0], numbers[1], numbers[2])
        guard Self.magic.count...end ~= offsetsStart, objectCount <= (end - offsetsStart) / offsetWidth,
            root < objectCount
        else {
            throw PropertyListError(.malformed, at: .init(offset: end + 8), "a trailer that fits no table of offsets")
        }
    }

    mutating func document() throws(PropertyListError) -> PropertyList {
        try object(root, depth: 1, from: root).value
    }

    private mutating func object(
        _ number: Int, depth: Int, from parent: Int
    ) throws(PropertyListError) -> Object {
        guard number < objectCount else { throw malformed(parent, "object \(number) of \(objectCount)") }
        guard let start = start(of: number), Self.magic.count..<offsetsStart ~= start else {
            throw malformed(number, "an offset outside of the objects")
        }
        guard Self.isKept(bytes[start]) else { return try read(number, start, depth) }
        if let object = objects[number] {
            guard object.size.bytes > 0 else { throw malformed(parent, "object \(number) has itself in it") }
            guard depth + object.height - 1 <= limits.depthMax else { throw tooDeep(parent) }
            return object
        }
        // While its content is read, it has no size.
        objects[number] = Object(value: false)
        let object = try read(number, start, depth)
        objects[number] = object
        return object
    }

    /// True for the markers of containers, and of leaves with fifteen parts or more: others are read again where they
    /// are shared, since looking them up takes as long.
    private static func isKept(_ marker: UInt8) -> Bool { 0xA...0xD ~= marker >> 4 || marker & 15 == 15 }

    private mutating func read(_ number: Int, _ start: Int, _ depth: Int) throws(PropertyListError) -> Object {
        var cursor = Cursor(bytes: bytes, start: start, end: offsetsStart, number: number, valuesMax: limits.valuesMax)
        let marker = bytes[start]
        var object = Object(value: false)
        switch (marker >> 4, marker & 15) {
        case (0xA, let low):
            let references = try cursor.references(try cursor.count(low), width: referenceWidth)
            var values: [PropertyList] = []
            values.reserveCapacity(references.count)
            try read(references, of: number, depth, &object) { _, value in values.append(value) }
            object.value = .array(values)
        case (0xD, let low):
            let count = try cursor.count(low)
            let keys = try cursor.references(count, width: referenceWidth)
            let references = try cursor.references(count, width: referenceWidth)
            object.value = .dictionary(try dictionary(keys, references, of: number, depth, &object))
        case (0xB, let low), (0xC, let low):
            _ = try cursor.references(try cursor.count(low), width: referenceWidth)
            object.value = .refused(cursor.error(.badValue, "a set"))
        default: object.value = try cursor.scalar(marker)
        }
        object.size += Size(values: 0, bytes: cursor.offset - start)
        try check(object.size, number)
        return object
    }

    private mutating func dictionary(
        _ keys: References, _ references: References, of number: Int, _ depth: Int, _ object: inout Object
    ) throws(PropertyListError) -> PropertyListDictionary {
        var entries: [PropertyListDictionary.Element] = []
        entries.reserveCapacity(keys.count)
        var hasOtherKey = false
        try read(keys, of: number, depth, &object) { _, key in
            if let text = key.string { entries.append((text, key)) } else { hasOtherKey = true }
        }
        if hasOtherKey { throw malformed(number, "a key that is not text") }
        try read(references, of: number, depth, &object) { index, value in entries[index].value = value }
        do { return try PropertyListDictionary(uniqueKeys: entries) } catch {
            throw malformed(number, "a key twice")
        }
    }

    /// Reads the objects in a container, which is counted with them.
    private mutating func read(
        _ references: References, of number: Int, _ depth: Int, _ object: inout Object,
        _ take: (Int, PropertyList) -> Void
    ) throws(PropertyListError) {
        guard depth <= limits.depthMax else { throw tooDeep(number) }
        object.height = max(object.height, 1)
        for index in 0..<references.count {
            let reference = Int(exactly: references.number(index, in: bytes)) ?? .max
            let content = try self.object(reference, depth: depth + 1, from: number)
            take(index, content.value)
            object.height = max(object.height, content.height + 1)
            object.size += content.size
            try check(object.size, number)
        }
    }

    private func check(_ size: Size, _ number: Int) throws(PropertyListError) {
        guard size.values <= limits.valuesMax else {
            throw PropertyListError(.limitExceeded, at: place(number), "more than \(limits.valuesMax) values and keys")
        }
        guard size.bytes <= limits.bytesMax else {
            let reason = "more than \(limits.bytesMax) bytes, with what is shared written out"
            throw PropertyListError(.limitExceeded, at: place(number), reason)
        }
    }

    private func malformed(_ number: Int, _ reason: String) -> PropertyListError {
        PropertyListError(.malformed, at: place(number), reason)
    }

    private func tooDeep(_ number: Int) -> PropertyListError {
        PropertyListError(.limitExceeded, at: place(number), "more than \(limits.depthMax) levels")
    }

    private func place(_ number: Int) -> PropertyListError.Place { .init(offset: start(of: number), object: number) }

    /// The place of an object, as the table of offsets says.
    private func start(of number: Int) -> Int? {
        Int(exactly: Self.number(offsetWidth, of: bytes, at: offsetsStart + number * offsetWidth))
    }

    /// A number of 1 to 8 bytes, the highest first.
    fileprivate static func number(_ width: Int, of bytes: [UInt8], at offset: Int) -> UInt64 {
        var number: UInt64 = 0
        for index in offset..<offset + width { number = number << 8 | UInt64(bytes[index]) }
        return number
    }

    /// The numbers of the objects in a container, as they lie in the document.
    fileprivate struct References {
        let start: Int
        let count: Int
        let width: Int

        func number(_ index: Int, in bytes: [UInt8]) -> UInt64 {
            BinaryReader.number(width, of: bytes, at: start + index * width)
        }
    }
}

/// The bytes of an object after its marker.
private struct Cursor {
    let bytes: [UInt8]
    /// The place of the marker.
    let start: Int
    var offset: Int
    let end: Int
    /// The number of the object.
    let number: Int
    let valuesMax: Int

    init(bytes: [UInt8], start: Int, end: Int, number: Int, valuesMax: Int) {
        (self.bytes, self.start, offset, self.end) = (bytes, start, start + 1, end)
        (self.number, self.valuesMax) = (number, valuesMax)
    }

    func error(_ code: PropertyListError.Code, _ reason: String) -> PropertyListError {
        PropertyListError(code, at: .init(offset: start, object: number), reason)
    }

    /// - Returns: where the bytes that are taken begin.
    mutating func skip(_ count: Int) throws(PropertyListError) -> Int {
        guard count <= end - offset else { throw error(.malformed, "\(count) bytes, where \(end - offset) are left") }
        defer { offset += count }
        return offset
    }

    mutating func take(_ count: Int) throws(PropertyListError) -> ArraySlice<UInt8> {
        let first = try skip(count)
        return bytes[first..<first + count]
    }

    mutating func number(_ width: Int) throws(PropertyListError) -> UInt64 {
        BinaryReader.number(width, of: bytes, at: try skip(width))
    }

    /// The number of parts: in the marker, or as an integer after it.
    mutating func count(_ low: UInt8) throws(PropertyListError) -> Int {
        if low < 15 { return Int(low) }
        let marker = bytes[try skip(1)]
        guard 0x10...0x13 ~= marker, let count = Int(exactly: try number(1 << Int(marker & 15))) else {
            throw error(.malformed, "no number of parts")
        }
        return count
    }

    mutating func references(_ count: Int, width: Int) throws(PropertyListError) -> BinaryReader.References {
        let first = try take(parts: count, width: width).startIndex
        guard count <= valuesMax else {
            throw error(.limitExceeded, "more than \(valuesMax) values and keys")
        }
        return BinaryReader.References(start: first, count: count, width: width)
    }

    private mutating func take(parts count: Int, width: Int) throws(PropertyListError) -> ArraySlice<UInt8> {
        let (length, overflows) = count.multipliedReportingOverflow(by: width)
        return try take(overflows ? .max : length)
    }

    mutating func scalar(_ marker: UInt8) throws(PropertyListError) -> PropertyList {
        switch (marker >> 4, marker & 15) {
        case (0x0, 0x8): return false
        case (0x0, 0x9): return true
        case (0x0, 0x0): return refused("null")
        case (0x1, let low) where low <= 4: return try integer(1 << Int(low))
        case (0x2, 2):
            let bits = UInt32(truncatingIfNeeded: try number(4))
            return .real(Double(Float(bitPattern: bits)))
        case (0x2, 3): return .real(Double(bitPattern: try number(8)))
        case (0x3, 3):
            let seconds = Double(bitPattern: try number(8))
            return PropertyListDate(secondsSince2001: seconds).map { .date($0) }
                ?? refused("no moment of the years 0001 to 9999")
        case (0x4, let low): return .data(Array(try take(try count(low))))
        case (0x5, let low):
            let bytes = try take(try count(low))
            guard bytes.allSatisfy({ 1..<0x80 ~= $0 }) else { return refused("an ASCII text with other bytes") }
            return .string(String(decoding: bytes, as: UTF8.self))
        case (0x6, let low): return text(try take(parts: try count(low), width: 2))
        case (0x8, let low):
            _ = try take(Int(low) + 1)
            return refused("a UID")
        default: throw error(.malformed, "no object begins with \(marker)")
        }
    }

    /// Those of 8 and 16 bytes have a sign.
    private mutating func integer(_ count: Int) throws(PropertyListError) -> PropertyList {
        guard count == 16 else { return .integer(Int64(bitPattern: try number(count))) }
        let number = Int128(truncatingIfNeeded: try take(count).reduce(UInt128(0)) { $0 << 8 | UInt128($1) })
        return .integer(of: number) ?? refused("no integer from -2^63 to 2^64-1")
    }

    /// UTF-16, the higher byte first.
    private func text(_ bytes: ArraySlice<UInt8>) -> PropertyList {
        let units = stride(from: bytes.startIndex, to: bytes.endIndex, by: 2).map { index in
            UInt16(bytes[index]) << 8 | UInt16(bytes[index + 1])
        }
        if units.contains(0) { return refused("a text with U+0000") }
        return String(validating: units, as: UTF16.self).map { .string($0) } ?? .illFormedString(units)
    }

    private func refused(_ reason: String) -> PropertyList { .refused(error(.badValue, reason)) }
}
