import AnabranchCore
import Foundation

/// Reads the objects of a page (`Spec/State.md`, D8) where its bytes lie.
struct PageReader {
    private var rest: UnsafeRawBufferPointer
    /// The key below which no further key may be.
    private var least: UnsafeRawBufferPointer
    /// The number of objects that follow; nil before the first one is read.
    private var left: Int?

    /// - Parameter key: the page's.
    init(_ content: UnsafeRawBufferPointer, from key: UnsafeRawBufferPointer) {
        rest = content
        least = key
    }

    /// The next object; nil after the last one.
    /// - Throws: `ApplyError` with the code `unavailable` if this is not a page.
    mutating func next() throws(ApplyError) -> (key: UnsafeRawBufferPointer, row: UnsafeRawBufferPointer)? {
        let isFirst = left == nil
        if isFirst { left = try number() }
        guard let left, left > 0 else {
            guard rest.isEmpty else { throw PageReader.damage }
            return nil
        }
        let key = try bytes(), row = try bytes()
        guard isFirst ? !key.isBelow(least) : least.isBelow(key) else { throw PageReader.damage }
        (least, self.left) = (key, left - 1)
        return (key, row)
    }

    /// The row of an object, if it is among those that follow.
    /// - Throws: `ApplyError` with the code `unavailable` if this is not a page.
    consuming func row(of key: [UInt8]) throws(ApplyError) -> [UInt8]? {
        while let object = try next() {
            let order = key.withUnsafeBytes { object.key.order(to: $0) }
            if order >= 0 { return order == 0 ? Array(object.row) : nil }
        }
        return nil
    }

    /// The rows of some objects, nil where there is none: of those of the keys that are not above all objects.
    /// - Parameter keys: ascending.
    consuming func rows(of keys: ArraySlice<[UInt8]>) throws(ApplyError) -> [[UInt8]?] {
        var rows: [[UInt8]?] = []
        while rows.count < keys.count, let object = try next() {
            var order = 0
            while order >= 0, rows.count < keys.count {
                order = keys[keys.startIndex + rows.count].withUnsafeBytes { object.key.order(to: $0) }
                if order >= 0 { rows.append(order == 0 ? Array(object.row) : nil) }
            }
        }
        return rows
    }

    private mutating func bytes() throws(ApplyError) -> UnsafeRawBufferPointer {
        let count = try number()
        guard count <= rest.count else { throw PageReader.damage }
        defer { rest = UnsafeRawBufferPointer(rebasing: rest[count...]) }
        return UnsafeRawBufferPointer(rebasing: rest[..<count])
    }

    private mutating func number() throws(ApplyError) -> Int {
        var number = 0
        for (index, byte) in rest.prefix(5).enumerated() {
            number |= Int(byte & 0x7f) << (7 * index)
            guard byte < 0x80 else { continue }
            rest = UnsafeRawBufferPointer(rebasing: rest[(index + 1)...])
            return number
        }
        throw PageReader.damage
    }

    private static var damage: ApplyError { .damaged("a page of objects is not what was written") }
}

/// The objects of a page in memory, to be changed.
struct PageObjects {
    typealias Object = (key: ArraySlice<UInt8>, row: ArraySlice<UInt8>)

    /// In ascending order of the keys.
    private(set) var objects: [Object] = []
    /// The number of bytes that they take in the page.
    private(set) var byteCount = 0

    init() {}

    /// - Throws: `ApplyError` with the code `unavailable` if this is not a page.
    init(_ content: [UInt8], from key: [UInt8]) throws(ApplyError) {
        var found: [(key: Range<Int>, row: Range<Int>)] = []
        let failure = content.withUnsafeBytes { content -> ApplyError? in
            key.withUnsafeBytes { key in
                var reader = PageReader(content, from: key)
                do throws(ApplyError) {
                    while let object = try reader.next() {
                        found.append((content.range(of: object.key), content.range(of: object.row)))
                    }
                    return nil
                } catch {
                    return error
                }
            }
        }
        if let failure { throw failure }
        for object in found { append((content[object.key], content[object.row])) }
    }

    private mutating func append(_ object: Object) {
        objects.append(object)
        byteCount += Self.byteCount(of: object)
    }

    /// Adds the objects of the page that follows this one.
    mutating func append(_ other: PageObjects) {
        objects += other.objects
        byteCount += other.byteCount
    }

    /// The objects with some rows replaced, added or removed.
    func applying(_ changes: ArraySlice<PageChange>) -> PageObjects {
        var result = PageObjects(), old = objects[...]
        result.objects.reserveCapacity(objects.count + changes.count)
        for change in changes {
            while let first = old.first, first.key.lexicographicallyPrecedes(change.key) {
                result.append(old.removeFirst())
            }
            if let first = old.first, first.key.elementsEqual(change.key) { old.removeFirst() }
            if let row = change.row { result.append((change.key[...], row[...])) }
        }
        for object in old { result.append(object) }
        return result
    }

    /// Divides it into pages that are small enough, and not empty; a page of a single object can be larger.
    /// - Parameter isGrowing: whether more objects are likely to follow at the end, and not in between. Then all pages
    ///   but the last one are full; otherwise each is as full as the others.
    func divided(bytesMax: Int, isGrowing: Bool) -> [PageObjects] {
        guard byteCount > bytesMax else { return objects.isEmpty ? [] : [self] }
        let pageCount = (byteCount + bytesMax - 1) / bytesMax
        let wanted = isGrowing ? bytesMax : (byteCount + pageCount - 1) / pageCount
        var pages = [PageObjects()]
        for object in objects {
            let last = pages[pages.count - 1].byteCount
            if last > 0, last >= wanted || last + Self.byteCount(of: object) > bytesMax { pages.append(PageObjects()) }
            pages[pages.count - 1].append(object)
        }
        return pages
    }

    /// The page as it is stored: the number of objects, and for each the size of its key, the key, the size of its row,
    /// the row. Numbers have seven bits a byte, the lowest first.
    var content: [UInt8] {
        var content: [UInt8] = []
        content.reserveCapacity(byteCount + 5)
        Self.append(objects.count, to: &content)
        for object in objects {
            Self.append(object.key.count, to: &content)
            content += object.key
            Self.append(object.row.count, to: &content)
            content += object.row
        }
        return content
    }

    private static func append(_ number: Int, to content: inout [UInt8]) {
        var number = number
        while number >= 0x80 {
            content.append(UInt8(number & 0x7f) | 0x80)
            number >>= 7
        }
        content.append(UInt8(number))
    }

    private static func byteCount(of object: Object) -> Int {
        size(of: object.key.count) + object.key.count + size(of: object.row.count) + object.row.count
    }

    /// The number of bytes that a number takes.
    private static func size(of count: Int) -> Int { max(1, (Int.bitWidth - count.leadingZeroBitCount + 6) / 7) }
}

/// An object's new row; nil if the object is removed.
struct PageChange {
    let key: [UInt8]
    let row: [UInt8]?
}

/// The changes of a commit to pages, in its order.
struct PageChanges {
    private(set) var ofClasses: [ClassID: [PageChange]] = [:]

    /// - Returns: false if this is not a row of pages.
    mutating func take(_ address: RowAddress, _ row: [UInt8]?) -> Bool {
        guard address.part == 0 else { return false }
        ofClasses[address.classID, default: []].append(PageChange(key: address.key, row: row))
        return true
    }
}

extension UnsafeRawBufferPointer {
    /// True if these bytes sort before others.
    fileprivate func isBelow(_ other: UnsafeRawBufferPointer) -> Bool { order(to: other) < 0 }

    /// The order of these bytes and others: negative, 0 or positive.
    func order(to other: UnsafeRawBufferPointer) -> Int {
        if let mine = baseAddress, let others = other.baseAddress {
            let order = memcmp(mine, others, Swift.min(count, other.count))
            if order != 0 { return Int(order) }
        }
        return count - other.count
    }

    /// The range of a part of these bytes in them.
    fileprivate func range(of part: UnsafeRawBufferPointer) -> Range<Int> {
        guard let start = baseAddress, let first = part.baseAddress else { return 0..<0 }
        return first - start..<first - start + part.count
    }
}
