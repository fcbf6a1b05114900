// The decoder of values, in the order of `Spec/Changeset.md`, section 6.

extension ItemDecoder {
    /// Decodes a value that is not an Int, after its type.
    mutating func otherValue(
        of result: inout Instruction, at offset: Int, in arena: inout ChangesetArena
    ) throws(ChangesetError) {
        switch result.type {
        case .null, .erased, .list, .dictionary, .set, .objectValue: break
        case .globalKey: throw ChangesetError(.globalKeyAsValue, at: offset, "a GlobalKey cannot be a value")
        case .int: result.word0 = UInt64(bitPattern: try reader.i64())
        case .bool: result.word0 = try reader.bool() ? 1 : 0
        case .string: try content(of: &result, atMost: Self.stringBytesMax)
        case .binary: try content(of: &result, atMost: .max)
        case .timestamp: try timestamp(of: &result)
        case .float:
            result.word0 = try reader.littleEndian(4)
            if Float(bitPattern: UInt32(result.word0)).isNaN { arena.holdsNaN = true }
        case .double:
            result.word0 = try reader.littleEndian(8)
            if Double(bitPattern: result.word0).isNaN { arena.holdsNaN = true }
        case .decimal: try decimal(of: &result)
        case .link:
            let target = try name(in: &arena)
            let targetIndex = latestName
            result.word0 = UInt64(try key(of: target, in: &arena).rawValue)
            result.word1 = targetIndex << 32 | latestName
        case .objectID:
            result.word0 = try reader.littleEndian(8)
            result.word1 = try reader.littleEndian(4)
        case .uuid:
            result.word0 = try reader.littleEndian(8)
            result.word1 = try reader.littleEndian(8)
        }
    }

    private mutating func content(of result: inout Instruction, atMost limit: UInt64) throws(ChangesetError) {
        let range = try reader.counted(atMost: limit)
        result.word0 = UInt64(start.bytes + range.lowerBound) << 32 | UInt64(range.count)
        result.word1 = bufferOffset
        bufferOffset += UInt64(range.count)
    }

    private mutating func timestamp(of result: inout Instruction) throws(ChangesetError) {
        let offset = reader.offset
        let seconds = try reader.i64()
        let nanoseconds = try reader.i64()
        guard nanoseconds <= 0x7FFF_FFFF else {
            throw ChangesetError(.timestampOutOfRange, at: offset, "timestamp out of range")
        }
        guard nanoseconds >= -0x8000_0000 else {
            throw ChangesetError(.nanosecondsTooSmall, at: offset, "timestamp out of range")
        }
        let sameSign = seconds == 0 || nanoseconds == 0 || (seconds < 0) == (nanoseconds < 0)
        guard sameSign, nanoseconds.magnitude <= 999_999_999 else {
            throw ChangesetError(.inconsistentTimestamp, at: offset, "timestamp of \(seconds) s and \(nanoseconds) ns")
        }
        result.word0 = UInt64(bitPattern: seconds)
        result.word1 = UInt64(bitPattern: nanoseconds)
    }

    private mutating func decimal(of result: inout Instruction) throws(ChangesetError) {
        let offset = reader.offset
        let (low, high) = try reader.coefficient()
        let exponent = try reader.i32()
        let sign = try reader.i32()
        if sign != 0 && sign != 1 { reader.isCanonical = false }
        let biased = Int64(exponent) + Int64(Decimal128.exponentBias)
        guard 0..<(1 << 14) ~= biased else {
            throw ChangesetError(.decimalOutOfRange, at: offset, "decimal exponent \(exponent) out of range")
        }
        result.word0 = low
        result.word1 = high | UInt64(biased) << 49 | (sign != 0 ? 1 << 63 : 0)
    }
}
