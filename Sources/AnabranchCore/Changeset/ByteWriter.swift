/// Appends to a changeset's bytes what `ByteReader` reads (`Spec/Changeset.md`, sections 2 to 4).
struct ByteWriter {
    private(set) var bytes: [UInt8] = []

    mutating func reserve(_ count: Int) { bytes.reserveCapacity(bytes.count + count) }

    /// Returns the bytes written so far and starts over.
    mutating func take() -> [UInt8] {
        defer { bytes = [] }
        return bytes
    }

    @inline(__always)
    private mutating func write(magnitude: UInt64, last signBit: UInt8) {
        var rest = magnitude
        while rest > 0x3F {
            bytes.append(0x80 | UInt8(truncatingIfNeeded: rest))
            rest >>= 7
        }
        bytes.append(signBit | UInt8(truncatingIfNeeded: rest))
    }

    @inline(__always)
    mutating func write(_ value: UInt64) { write(magnitude: value, last: 0) }

    @inline(__always)
    mutating func write(_ value: UInt32) { write(magnitude: UInt64(value), last: 0) }

    @inline(__always)
    mutating func write(_ value: Int64) {
        if value >= 0 {
            write(magnitude: UInt64(value), last: 0)
        } else {
            write(magnitude: UInt64(~value), last: 0x40)
        }
    }

    @inline(__always)
    mutating func write(_ value: Bool) { bytes.append(value ? 1 : 0) }

    /// A number below 64 as one byte: opcodes, collection and table types.
    @inline(__always)
    mutating func write(small value: UInt8) { bytes.append(value) }

    @inline(__always)
    mutating func write(_ type: PayloadType) { write(Int64(type.rawValue)) }

    mutating func write(coefficientLow: UInt64, high: UInt64) {
        var (low, high) = (coefficientLow, high)
        while high > 0 || low > 0x3F {
            bytes.append(0x80 | UInt8(truncatingIfNeeded: low))
            low = low >> 7 | high << 57
            high >>= 7
        }
        bytes.append(UInt8(low))
    }

    mutating func write(littleEndian value: UInt64, count: Int) {
        for position in 0..<count { bytes.append(UInt8(truncatingIfNeeded: value >> UInt64(8 * position))) }
    }

    /// A count and the bytes themselves.
    @inline(__always)
    mutating func write<Bytes: Collection>(counted content: Bytes) where Bytes.Element == UInt8 {
        write(UInt64(content.count))
        bytes.append(contentsOf: content)
    }

    @inline(__always)
    mutating func write<Bytes: Sequence>(raw content: Bytes) where Bytes.Element == UInt8 {
        bytes.append(contentsOf: content)
    }
}
