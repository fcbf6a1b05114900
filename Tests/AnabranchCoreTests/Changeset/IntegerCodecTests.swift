import Testing

@testable import AnabranchCore

/// The integers of `Spec/Changeset.md`, section 2.
@Suite struct IntegerCodecTests {
    @Test(
        arguments: [
            (0, "00"), (1, "01"), (63, "3f"), (64, "c000"), (127, "ff00"), (128, "8001"), (500, "f403"), (8191, "ff3f"),
            (8192, "80c000"), (-1, "40"), (-2, "41"), (-64, "7f"), (-65, "c040"), (0xFFFF_FFFF, "ffffffff0f"),
            (0x7FFF_FFFF, "ffffffff07"), (-0x8000_0000, "ffffffff47"), (.max, "ffffffffffffffffff00"),
            (.min, "ffffffffffffffffff40"),
        ] as [(Int64, String)])
    func numberHasTheBytesOfTheChapter(_ number: Int64, _ hex: String) throws {
        #expect(Hex.encode(written { $0.write(number) }) == hex)
        #expect(try read(Hex.bytes(hex)) { reader throws(ChangesetError) in try reader.i64() } == number)
    }

    @Test func largestUnsignedNumberHasTheBytesOfTheChapter() throws {
        #expect(Hex.encode(written { $0.write(UInt64.max) }) == "ffffffffffffffffff01")
        #expect(
            try read(Hex.bytes("ffffffffffffffffff01")) { reader throws(ChangesetError) in try reader.u64() } == .max)
    }

    /// All inputs of one and two bytes, by a second writing-down of the chapter's rules.
    @Test func everyInputOfTwoBytesIsReadByTheRules() {
        for first in UInt8.min...UInt8.max {
            for second in UInt8.min...UInt8.max {
                let bytes = [first, second]
                expectAgreement(bytes, bits: 8, isSigned: false) { reader throws(ChangesetError) in
                    Int128(try reader.u8())
                }
                expectAgreement(bytes, bits: 32, isSigned: false) { reader throws(ChangesetError) in
                    Int128(try reader.u32())
                }
                expectAgreement(bytes, bits: 31, isSigned: true) { reader throws(ChangesetError) in
                    Int128(try reader.i32())
                }
                expectAgreement(bytes, bits: 63, isSigned: true) { reader throws(ChangesetError) in
                    Int128(try reader.i64())
                }
            }
        }
    }

    /// Runs of continuation bytes of every length before every last byte: the limits of all widths.
    @Test func everyLastByteAfterAnyNumberOfOthersIsReadByTheRules() {
        for count in 0..<12 {
            for fill in [0x80, 0xFF, 0xC0, 0xA5] as [UInt8] {
                for last in UInt8.min..<0x80 {
                    let bytes = [UInt8](repeating: fill, count: count) + [last]
                    expectAgreement(bytes, bits: 8, isSigned: false) { reader throws(ChangesetError) in
                        Int128(try reader.u8())
                    }
                    expectAgreement(bytes, bits: 32, isSigned: false) { reader throws(ChangesetError) in
                        Int128(try reader.u32())
                    }
                    expectAgreement(bytes, bits: 31, isSigned: true) { reader throws(ChangesetError) in
                        Int128(try reader.i32())
                    }
                    expectAgreement(bytes, bits: 64, isSigned: false) { reader throws(ChangesetError) in
                        Int128(try reader.u64())
                    }
                    expectAgreement(bytes, bits: 63, isSigned: true) { reader throws(ChangesetError) in
                        Int128(try reader.i64())
                    }
                }
            }
        }
    }

    @Test func numbersAroundPowersOfTwoComeBack() throws {
        for bit in 0..<64 {
            for distance in -2...2 as ClosedRange<Int64> {
                let number = Int64(truncatingIfNeeded: UInt64(1) << UInt64(bit)) &+ distance
                for number in [number, ~number] {
                    let signed = written { $0.write(number) }
                    #expect(try read(signed) { reader throws(ChangesetError) in try reader.i64() } == number)
                    let unsigned = written { $0.write(UInt64(bitPattern: number)) }
                    let back = try read(unsigned) { reader throws(ChangesetError) in try reader.u64() }
                    #expect(back == UInt64(bitPattern: number))
                }
            }
        }
    }

    @Test func coefficientsComeBack() throws {
        for bit in 0..<113 {
            for distance in -1...1 as ClosedRange<Int128> {
                let number = UInt128(truncatingIfNeeded: (Int128(1) << Int128(bit)) + distance)
                let bytes = written {
                    $0.write(coefficientLow: UInt64(truncatingIfNeeded: number), high: UInt64(number >> 64))
                }
                #expect(bytes.dropLast().allSatisfy { $0 >= 0x80 } && bytes.last.map { $0 < 0x40 } == true)
                let (low, high) = try read(bytes) { reader throws(ChangesetError) in try reader.coefficient() }
                #expect(UInt128(high) << 64 | UInt128(low) == number)
            }
        }
    }

    // MARK: Helpers

    private func written(_ write: (inout ByteWriter) -> Void) -> [UInt8] {
        var writer = ByteWriter()
        write(&writer)
        return writer.bytes
    }

    private func read<Value>(
        _ bytes: [UInt8], _ read: (inout ByteReader) throws(ChangesetError) -> Value
    ) throws(ChangesetError) -> Value {
        try bytes.withUnsafeBufferPointer { buffer throws(ChangesetError) in
            var reader = ByteReader(buffer)
            let value = try read(&reader)
            #expect(reader.isAtEnd && reader.isCanonical, "\(Hex.encode(bytes))")
            return value
        }
    }

    /// The expected decoding of an integer: the number, its length in bytes and whether it is the shortest form.
    private struct Reading: Equatable {
        var number: Int128
        var count: Int
        var isCanonical: Bool
    }

    private func expectAgreement(
        _ bytes: [UInt8], bits: Int, isSigned: Bool, _ read: (inout ByteReader) throws(ChangesetError) -> Int128
    ) {
        let reading: Reading? = bytes.withUnsafeBufferPointer { buffer in
            var reader = ByteReader(buffer)
            guard let number = try? read(&reader) else { return nil }
            return Reading(number: number, count: reader.offset, isCanonical: reader.isCanonical)
        }
        let expected = expectedReading(bytes, bits: bits, isSigned: isSigned)
        if reading != expected { Issue.record("\(Hex.encode(bytes)), \(bits) bits: \(String(describing: reading))") }
    }

    private func expectedReading(_ bytes: [UInt8], bits: Int, isSigned: Bool) -> Reading? {
        let longest = (1 + bits + 6) / 7
        guard let lastIndex = bytes.firstIndex(where: { $0 < 0x80 }), lastIndex < longest else { return nil }
        let last = bytes[lastIndex]
        let largest = Int128(1) << Int128(bits) - 1
        guard Int128(last & 0x3F) << Int128(7 * lastIndex) <= largest else { return nil }
        var magnitude = Int128(last & 0x3F)
        for byte in bytes[..<lastIndex].reversed() { magnitude = magnitude << 7 | Int128(byte & 0x7F) }
        let isNegative = last & 0x40 != 0
        guard isSigned || !isNegative else { return nil }
        let number = isNegative ? -magnitude - 1 : magnitude
        let shortest = written {
            if isSigned { $0.write(Int64(number)) } else { $0.write(UInt64(number)) }
        }
        return Reading(number: number, count: lastIndex + 1, isCanonical: shortest.count == lastIndex + 1)
    }
}
