/// Writes Realm files of one class by hand: forms that no file of the reference has, and any number of objects.
package struct RealmFileBuilder {
    package struct Column {
        package var name: String
        /// The number of the type.
        package var type: Int64
        package var attributes: Int64
        /// The ref of the values of an enumerated string; 0 if it is none.
        package var values: Int64

        package init(name: String, type: Int64, attributes: Int64 = 0, values: Int64 = 0) {
            (self.name, self.type, self.attributes, self.values) = (name, type, attributes, values)
        }
    }

    /// Children of a node.
    private static let childrenMax = 256

    private var bytes = [UInt8](repeating: 0, count: 24)

    package init() {}

    /// Appends an array, and returns its ref.
    package mutating func array(
        _ content: [UInt8], count: Int, kind: UInt8 = 0, widthCode: UInt8 = 0, flags: UInt8 = 0
    ) -> Int64 {
        let ref = bytes.count
        let head = flags | kind << 3 | widthCode
        bytes += "AAAA".utf8
        bytes += [head, UInt8(count >> 16 & 0xFF), UInt8(count >> 8 & 0xFF), UInt8(count & 0xFF)]
        bytes += content
        bytes += [UInt8](repeating: 0, count: (8 - bytes.count % 8) % 8)
        return Int64(ref)
    }

    /// An array of integers that are as wide as their type.
    package mutating func integers<Number: FixedWidthInteger>(_ values: [Number], flags: UInt8 = 0) -> Int64 {
        var content: [UInt8] = []
        for value in values { withUnsafeBytes(of: value.littleEndian) { content += $0 } }
        let widthCode = UInt8(Number.bitWidth.trailingZeroBitCount + 1)
        return array(content, count: values.count, widthCode: widthCode, flags: flags)
    }

    package mutating func refs(_ values: [Int64]) -> Int64 { integers(values, flags: 0x40) }

    /// An array of `count` zeros, which has no content bytes.
    package mutating func zeros(_ count: Int) -> Int64 { array([], count: count) }

    package mutating func blob(_ content: [UInt8]) -> Int64 { array(content, count: content.count, kind: 2) }

    /// Strings or binaries, each in a blob of its own.
    package mutating func big(_ blobs: [Int64]) -> Int64 { integers(blobs, flags: 0x60) }

    package mutating func doubles(_ values: [Double]) -> Int64 {
        let content = values.flatMap { value in withUnsafeBytes(of: value.bitPattern.littleEndian) { Array($0) } }
        return array(content, count: values.count, kind: 1, widthCode: 4)
    }

    /// Strings of up to 15 bytes.
    package mutating func shortStrings(_ strings: [String]) -> Int64 {
        var content: [UInt8] = []
        for string in strings {
            let unused = 15 - string.utf8.count
            content += string.utf8
            content += [UInt8](repeating: 0, count: unused)
            content.append(UInt8(unused))
        }
        return array(content, count: strings.count, kind: 1, widthCode: 5)
    }

    /// Strings one after the other in one blob, none of them null.
    package mutating func mediumStrings(_ strings: [String]) -> Int64 {
        var ends: [Int32] = [], content: [UInt8] = []
        for string in strings {
            content += string.utf8
            content.append(0)
            ends.append(Int32(content.count))
        }
        return refs([integers(ends), blob(content), zeros(strings.count)])
    }

    private static func tagged(_ number: Int) -> Int64 { Int64(number) << 1 | 1 }

    /// Completes the file: one class, whose first column is its primary key.
    ///
    /// - Parameters:
    ///   - leaves: the number of objects of each, and the refs of their values, column by column. All but the last have
    ///     256 objects if there are several.
    ///   - className: of up to nine bytes.
    package mutating func finish(
        _ columns: [Column], leaves: [(count: Int, values: [Int64])], className: String = "A"
    ) -> [UInt8] {
        let root = tree(leaves)
        let keys = columns.enumerated().map { slot, column -> Int64 in
            Int64(slot) | column.type << 16 | column.attributes << 22
        }
        let spec = refs([
            integers(columns.map(\.type)), shortStrings(columns.map(\.name)), integers(columns.map(\.attributes)), 0,
            refs(columns.map(\.values)), integers(keys),
        ])
        let zero = Self.tagged(0)
        let table = refs([
            spec, 0, root, zero, 0, zero, zero, 0, 0, zero, 0, Self.tagged(Int(keys[0])), zero, 0,
        ])
        let tables = (shortStrings(["class_" + className]), refs([table]))
        let size = bytes.count + 8 + 8 * 11
        let top = refs([
            tables.0, tables.1, Self.tagged(size), 0, 0, 0, Self.tagged(2), zero, 0, zero, zero,
        ])
        for index in 0..<8 { bytes[8 + index] = UInt8(truncatingIfNeeded: top >> (8 * index)) }
        bytes.replaceSubrange(16..<24, with: Array("T-DB".utf8) + [0, 24, 0, 1])
        return bytes
    }

    /// Appends the tree of the objects, and returns the ref of its root.
    private mutating func tree(_ leaves: [(count: Int, values: [Int64])]) -> Int64 {
        var nodes = leaves.map { (count: $0.count, ref: refs([Self.tagged($0.count)] + $0.values)) }
        var level = 0
        while nodes.count > 1 {
            level += 1
            nodes = stride(from: 0, to: nodes.count, by: Self.childrenMax).map { start in
                let children = nodes[start...].prefix(Self.childrenMax), count = children.reduce(0) { $0 + $1.count }
                let head = [0, Self.tagged(level), Self.tagged(count)]
                return (count, integers(head + children.map(\.ref), flags: 0xC0))
            }
        }
        return nodes[0].ref
    }
}
