/// What a row ends with: 64 bits that depend on its address and its content, so that a row that is not what was
/// written there is found when it is read (`Spec/State.md`, D6). It reveals accidents and holds no secret.
package enum RowChecksum {
    static let byteCount = 8

    /// A content as it is stored.
    package static func append(to content: inout [UInt8], at address: RowAddress) {
        let sum = sum(of: content, count: content.count, at: address)
        for shift in stride(from: UInt64(0), to: 64, by: 8) { content.append(UInt8(truncatingIfNeeded: sum >> shift)) }
    }

    /// The content of a stored row; nil if it was not written at this address.
    package static func content(of row: consuming [UInt8], at address: RowAddress) -> [UInt8]? {
        let count = row.count - byteCount
        guard count >= 0 else { return nil }
        let stored = row[count...].reversed().reduce(0) { $0 << 8 | UInt64($1) }
        guard stored == sum(of: row, count: count, at: address) else { return nil }
        row.removeLast(byteCount)
        return row
    }

    private static func sum(of row: [UInt8], count: Int, at address: RowAddress) -> UInt64 {
        var sum = RowSum()
        sum.add(UInt64(address.classID.rawValue))
        sum.add(address.part)
        sum.add(address.key, count: address.key.count)
        sum.add(row, count: count)
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

    /// The first bytes, with their count.
    mutating func add(_ bytes: [UInt8], count: Int) {
        add(UInt64(count))
        bytes.withUnsafeBytes { bytes in
            for position in stride(from: 0, through: count - 8, by: 8) {
                add(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self)))
            }
            var last: UInt64 = 0
            for position in (count & ~7)..<count { last = last << 8 | UInt64(bytes[position]) }
            add(last)
        }
    }

    var value: UInt64 {
        var last = self
        last.add(0x1319_8A2E_0370_7344)
        return last.state
    }
}
