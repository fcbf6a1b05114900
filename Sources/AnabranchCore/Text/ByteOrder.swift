/// Comparisons of eight bytes at a time: keys and names of which many have the same beginning are compared very often.
extension UnsafeRawBufferPointer {
    /// True if both have the same bytes.
    package func hasBytes(of others: UnsafeRawBufferPointer) -> Bool {
        guard count == others.count else { return false }
        var index = 0
        while index + 8 <= count {
            guard word(at: index) == others.word(at: index) else { return false }
            index += 8
        }
        while index < count {
            guard self[index] == others[index] else { return false }
            index += 1
        }
        return true
    }

    /// True if the bytes come before others, or are the beginning of them.
    package func precedes(_ others: UnsafeRawBufferPointer) -> Bool {
        let common = Swift.min(count, others.count)
        var index = 0
        while index + 8 <= common {
            let (left, right) = (word(at: index), others.word(at: index))
            if left != right { return left.bigEndian < right.bigEndian }
            index += 8
        }
        while index < common {
            if self[index] != others[index] { return self[index] < others[index] }
            index += 1
        }
        return count < others.count
    }

    private func word(at index: Int) -> UInt64 { loadUnaligned(fromByteOffset: index, as: UInt64.self) }
}

extension [UInt8] {
    /// True if the bytes come before others, or are the beginning of them.
    package func precedes(_ others: [UInt8]) -> Bool {
        withUnsafeBytes { mine in others.withUnsafeBytes { mine.precedes($0) } }
    }
}
