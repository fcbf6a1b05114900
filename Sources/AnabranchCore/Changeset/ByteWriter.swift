/// Takes bytes one after the other.
protocol ByteSink: ~Copyable {
    mutating func append(_ byte: UInt8)
    mutating func append(all bytes: UnsafeBufferPointer<UInt8>)
}

/// Appends to a changeset's bytes what `ByteReader` reads (`Spec/Changeset.md`, sections 2 to 4).
struct ByteWriter: ByteSink {
    private(set) var bytes: [UInt8] = []

    mutating func reserve(_ count: Int) { bytes.reserveCapacity(bytes.count + count) }

    /// Returns the bytes written so far and starts over.
    mutating func take() -> [UInt8] {
        defer { bytes = [] }
        return bytes
    }

    @inline(__always)
    mutating func append(_ byte: UInt8) { bytes.append(byte) }

    @inline(__always)
    mutating func append(all content: UnsafeBufferPointer<UInt8>) { bytes.append(contentsOf: content) }

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

/// Takes bytes without a look at whether there is room: that is made for many at a time. Builds with
/// `-D ANABRANCH_CHECKED` look each time (`scripts/checked`).
struct ByteRoom: ~Copyable, ByteSink {
    private var room: UnsafeMutableBufferPointer<UInt8>
    private(set) var count = 0

    init(capacity: Int) { room = .allocate(capacity: capacity) }

    deinit { room.deallocate() }

    var bytes: [UInt8] { Array(room[..<count]) }

    /// Makes room for this many bytes more.
    @inline(__always)
    mutating func makeRoom(_ more: Int) { if room.count - count < more { grow(more) } }

    private mutating func grow(_ more: Int) {
        let grown = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: 2 * count + more)
        _ = grown.update(fromContentsOf: room[..<count])
        room.deallocate()
        room = grown
    }

    @inline(__always)
    mutating func append(_ byte: UInt8) {
        invariant(count < room.count, "no room after \(count) bytes")
        room[count] = byte
        count &+= 1
    }

    @inline(__always)
    mutating func append(all content: UnsafeBufferPointer<UInt8>) {
        invariant(room.count - count >= content.count, "no room for \(content.count) bytes after \(count)")
        _ = UnsafeMutableBufferPointer(rebasing: room[count...]).update(fromContentsOf: content)
        count &+= content.count
    }

    /// Appends bytes that were written before, a word at a time: a word more than they take must have room.
    @inline(__always)
    mutating func append(again range: Range<Int>) {
        invariant(range.upperBound <= count && room.count - count >= range.count + 8, "no room to repeat \(range)")
        let raw = UnsafeMutableRawBufferPointer(room)
        var position = 0
        while position < range.count {
            let word = raw.loadUnaligned(fromByteOffset: range.lowerBound &+ position, as: UInt64.self)
            raw.storeBytes(of: word, toByteOffset: count &+ position, as: UInt64.self)
            position &+= 8
        }
        count &+= range.count
    }
}

extension ByteSink where Self: ~Copyable {
    @inline(__always)
    private mutating func write(magnitude: UInt64, last signBit: UInt8) {
        var rest = magnitude
        while rest > 0x3F {
            append(0x80 | UInt8(truncatingIfNeeded: rest))
            rest >>= 7
        }
        append(signBit | UInt8(truncatingIfNeeded: rest))
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
    mutating func write(_ value: Bool) { append(value ? 1 : 0) }

    /// A number below 64 as one byte: opcodes, collection and table types.
    @inline(__always)
    mutating func write(small value: UInt8) { append(value) }

    @inline(__always)
    mutating func write(_ type: PayloadType) { write(Int64(type.rawValue)) }

    mutating func write(coefficientLow: UInt64, high: UInt64) {
        var (low, high) = (coefficientLow, high)
        while high > 0 || low > 0x3F {
            append(0x80 | UInt8(truncatingIfNeeded: low))
            low = low >> 7 | high << 57
            high >>= 7
        }
        append(UInt8(low))
    }

    mutating func write(littleEndian value: UInt64, count: Int) {
        for position in 0..<count { append(UInt8(truncatingIfNeeded: value >> UInt64(8 * position))) }
    }

    /// A count and the bytes themselves.
    @inline(__always)
    mutating func write(all content: UnsafeBufferPointer<UInt8>) {
        write(UInt64(content.count))
        append(all: content)
    }
}
