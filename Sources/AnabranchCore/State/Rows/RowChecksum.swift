/// The checksum at the end of a row: 64 bits that depend on its address and its content, so that a row that is not what
/// was written there is recognised when it is read (`Spec/State.md`, D6). It reveals accidents and holds no secret.
package enum RowChecksum {
    static let byteCount = 8

    /// A content as it is stored.
    package static func append(to content: inout [UInt8], at address: RowAddress) {
        let sum = content.withUnsafeBytes { RowChecksum.sum(of: $0, at: address) }
        for shift in stride(from: UInt64(0), to: 64, by: 8) { content.append(UInt8(truncatingIfNeeded: sum >> shift)) }
    }

    /// A content as it is stored, in as much memory as it needs: an array that something is appended to gets twice as
    /// much, and a commit has all its rows in memory.
    package static func row(of content: [UInt8], at address: RowAddress) -> [UInt8] {
        var row: [UInt8] = []
        row.reserveCapacity(content.count + byteCount)
        row += content
        append(to: &row, at: address)
        return row
    }

    /// The content of a stored row; nil if it was not written at this address.
    package static func content(of row: consuming [UInt8], at address: RowAddress) -> [UInt8]? {
        let isWhole = address.key.withUnsafeBytes { key in
            row.withUnsafeBytes { content(of: $0, address.classID, key, address.part) != nil }
        }
        guard isWhole else { return nil }
        row.removeLast(byteCount)
        return row
    }

    /// The same, where the row and the key of its address lie.
    static func content(
        of row: UnsafeRawBufferPointer, _ classID: ClassID, _ key: UnsafeRawBufferPointer, _ part: UInt64
    ) -> UnsafeRawBufferPointer? {
        let count = row.count - byteCount
        guard count >= 0 else { return nil }
        let content = UnsafeRawBufferPointer(rebasing: row[..<count])
        let stored = UInt64(littleEndian: row.loadUnaligned(fromByteOffset: count, as: UInt64.self))
        return stored == sum(of: content, classID, key, part) ? content : nil
    }

    private static func sum(of content: UnsafeRawBufferPointer, at address: RowAddress) -> UInt64 {
        address.key.withUnsafeBytes { sum(of: content, address.classID, $0, address.part) }
    }

    private static func sum(
        of content: UnsafeRawBufferPointer, _ classID: ClassID, _ key: UnsafeRawBufferPointer, _ part: UInt64
    ) -> UInt64 {
        var sum = RowSum()
        sum.add(UInt64(classID.rawValue))
        sum.add(part)
        sum.add(key)
        sum.add(content)
        return sum.value
    }
}

/// Mixes words, eight bytes each, by multiplications to twice the width whose halves are joined.
private struct RowSum {
    private var state: UInt64 = 0x243F_6A88_85A3_08D3

    @inline(__always)
    mutating func add(_ word: UInt64) {
        let product = (state ^ word).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        // A product of zero would forget what came before.
        state = (product.high ^ product.low) &+ (word.byteSwapped &* 0xD6E8_FEB8_6659_FD93)
    }

    /// Bytes, with their count.
    mutating func add(_ bytes: UnsafeRawBufferPointer) {
        let count = bytes.count
        add(UInt64(count))
        for position in stride(from: 0, through: count - 8, by: 8) {
            add(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self)))
        }
        var last: UInt64 = 0
        for position in (count & ~7)..<count { last = last << 8 | UInt64(bytes[position]) }
        add(last)
    }

    var value: UInt64 {
        var last = self
        last.add(0x1319_8A2E_0370_7344)
        return last.state
    }
}
