/// Writes Realm files of one class by hand, for forms that no file of the reference has.
struct FileBuilder {
    struct Column {
        var name: String
        /// The number of the type.
        var type: Int64
        var attributes: Int64 = 0
        /// The ref of the values of an enumerated string; 0 if it is none.
        var values: Int64 = 0
    }

    private var bytes = [UInt8](repeating: 0, count: 24)

    /// Appends an array, and returns its ref.
    mutating func array(
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

    /// Integers of 64 bits.
    mutating func integers(_ values: [Int64], flags: UInt8 = 0) -> Int64 {
        var content: [UInt8] = []
        for value in values { withUnsafeBytes(of: value.littleEndian) { content += $0 } }
        return array(content, count: values.count, widthCode: 7, flags: flags)
    }

    mutating func refs(_ values: [Int64]) -> Int64 { integers(values, flags: 0x40) }

    /// So many times 0, in an array of no bytes.
    mutating func zeros(_ count: Int) -> Int64 { array([], count: count) }

    mutating func blob(_ content: [UInt8]) -> Int64 { array(content, count: content.count, kind: 2) }

    /// Strings or binaries, each in a blob of its own.
    mutating func big(_ blobs: [Int64]) -> Int64 { integers(blobs, flags: 0x60) }

    private mutating func names(_ names: [String]) -> Int64 {
        var content: [UInt8] = []
        for name in names {
            let unused = 15 - name.utf8.count
            content += name.utf8
            content += [UInt8](repeating: 0, count: unused)
            content.append(UInt8(unused))
        }
        return array(content, count: names.count, kind: 1, widthCode: 5)
    }

    private static func tagged(_ number: Int) -> Int64 { Int64(number) << 1 | 1 }

    /// The file: a class `A`, whose first column is its primary key.
    ///
    /// - Parameter leaves: how many objects each has, and the refs of their values, column by column.
    mutating func finish(_ columns: [Column], leaves: [(count: Int, values: [Int64])]) -> [UInt8] {
        let nodes = leaves.map { refs([Self.tagged($0.count)] + $0.values) }
        let count = leaves.reduce(0) { $0 + $1.count }
        let root =
            nodes.count == 1 ? nodes[0] : integers([0, Self.tagged(1), Self.tagged(count)] + nodes, flags: 0xC0)
        let keys = columns.enumerated().map { slot, column -> Int64 in
            Int64(slot) | column.type << 16 | column.attributes << 22
        }
        let spec = refs([
            integers(columns.map(\.type)), names(columns.map(\.name)), integers(columns.map(\.attributes)), 0,
            refs(columns.map(\.values)), integers(keys),
        ])
        let zero = Self.tagged(0)
        let table = refs([
            spec, 0, root, zero, 0, zero, zero, 0, 0, zero, 0, Self.tagged(Int(keys[0])), zero, 0,
        ])
        let tables = (names(["class_A"]), refs([table]))
        let size = bytes.count + 8 + 8 * 11
        let top = refs([
            tables.0, tables.1, Self.tagged(size), 0, 0, 0, Self.tagged(2), zero, 0, zero, zero,
        ])
        for index in 0..<8 { bytes[8 + index] = UInt8(truncatingIfNeeded: top >> (8 * index)) }
        bytes.replaceSubrange(16..<24, with: Array("T-DB".utf8) + [0, 24, 0, 1])
        return bytes
    }
}
