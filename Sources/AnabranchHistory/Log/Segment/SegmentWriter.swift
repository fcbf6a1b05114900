/// Appends to a log segment in the form that `SegmentReader` reads (`Spec/Durability.md`, section 8.1).
struct SegmentWriter {
    private(set) var bytes: [UInt8] = []

    /// Returns the bytes written so far and starts over.
    mutating func take() -> [UInt8] {
        defer { bytes = [] }
        return bytes
    }

    /// Writes LEB128: seven bits per byte, the lowest first.
    mutating func write(_ number: UInt64) {
        var rest = number
        while rest > 0x7F {
            bytes.append(0x80 | UInt8(truncatingIfNeeded: rest))
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    mutating func write(count: Int) { write(UInt64(count)) }

    /// Writes the difference between two numbers; small in either direction.
    mutating func write(from old: UInt64, to new: UInt64) {
        let difference = new &- old
        write(difference << 1 ^ (0 &- difference >> 63))
    }

    mutating func write(_ content: some Sequence<UInt8>) { bytes.append(contentsOf: content) }

    /// Writes the number of bytes, then the bytes.
    mutating func write(counted content: some Collection<UInt8>) {
        write(count: content.count)
        write(content)
    }

    /// Writes each number with the count of its repetitions.
    mutating func write(repeats numbers: [UInt64]) {
        var rest = numbers[...]
        while let number = rest.first {
            let others = rest.drop { $0 == number }
            write(count: rest.count - others.count)
            write(number)
            rest = others
        }
    }
}
