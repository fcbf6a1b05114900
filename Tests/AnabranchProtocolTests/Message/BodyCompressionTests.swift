import AnabranchTesting
import Testing

@testable import AnabranchProtocol

@Suite struct BodyCompressionTests {
    private func inflate(_ body: [UInt8], to size: Int, limits: Limits = Limits()) throws -> [UInt8] {
        try BodyCompression.inflate(body[...], to: size, limits: limits)
    }

    private func isRefused(_ body: [UInt8], _ size: Int, limits: Limits = Limits(), _ comment: Comment? = nil) {
        #expect(violation(compressedUpload(body, inflatingTo: size), limits: limits) == .badDecompression, comment)
    }

    private func deflate(_ body: [UInt8], level: Int = 6) throws -> [UInt8] {
        try #require(BodyCompression.deflate(body, level: level))
    }

    /// Three entries, as a client would send them. Their bytes differ enough for the checksum to tell them apart.
    private static func sample() -> [UInt8] {
        var generator = SeededRandom(seed: 3)
        return uploadBody(
            (1...3).map { version in
                (version, 0, 374_544_000_000, 0, (0..<200).map { _ in .random(in: 0...15, using: &generator) &* 17 })
            })
    }

    @Test(arguments: 1...9)
    func whatWasDeflatedInflates(level: Int) throws {
        var generator = SeededRandom(seed: UInt64(level))
        for size in [50, 1025, 40_000, 1 << 20] {
            let body = (0..<size).map { _ in UInt8.random(in: 0...3, using: &generator) }
            #expect(try inflate(try deflate(body, level: level), to: size) == body)
        }
    }

    @Test("what is stopped has been inflated as far as it was asked for, and a part further at most")
    func stopping() throws {
        let body = [UInt8](repeating: 7, count: 1 << 20)
        let deflated = try deflate(body)
        for enough in [1, 64 << 10, 100_000, 1 << 20] {
            let begun = try BodyCompression.inflate(deflated[...], to: body.count, limits: Limits()) {
                $0.count >= enough
            }
            #expect(begun.count >= enough && begun.count < enough + 64 << 10 && body.starts(with: begun))
        }
    }

    /// Of a long body samples say whether it is worth it: pictures are sent as they are.
    @Test func picturesAreNotDeflated() {
        var generator = SeededRandom(seed: 9)
        func picture(_ size: Int) -> [UInt8] {
            (0..<size / 8).flatMap { _ in withUnsafeBytes(of: generator.next(), Array.init) }
        }
        let empty = [UInt8](repeating: 0, count: 400_000)
        for (body, isDeflated) in [
            (picture(400_000) + empty.prefix(10_000), false), (picture(100_000) + empty.prefix(10_000), true),
            (picture(200_000) + empty, true), (empty, true),
        ] {
            let encoded = EncodedBody(deflating: body, limits: Limits())
            #expect(encoded.isCompressed == isDeflated && encoded.uncompressedBytes == body.count)
            #expect(encoded.bytes == body || isDeflated)
        }
    }

    @Test func nothingInflatesToNothing() throws {
        let emptyStream: [UInt8] = [0x78, 0x9C, 0x03, 0x00, 0x00, 0x00, 0x00, 0x01]
        #expect(try inflate(emptyStream, to: 0) == [])
        #expect(violation(compressedUpload(emptyStream, inflatingTo: 0)) == nil)
        isRefused([], 0)
        isRefused(emptyStream, 1)
    }

    @Test func theAnnouncedSizeMustBeExact() throws {
        let body = Self.sample()
        let deflated = try deflate(body)
        #expect(try inflate(deflated, to: body.count) == body)
        for size in [0, 1, body.count - 1, body.count + 1, body.count * 2] { isRefused(deflated, size) }
    }

    @Test func nothingMayFollowTheStream() throws {
        let body = Self.sample()
        let deflated = try deflate(body)
        isRefused(deflated + [0], body.count)
        isRefused(deflated + deflated, body.count)
        isRefused(deflated + deflated, body.count * 2)
    }

    @Test func otherFormatsAreRefused() throws {
        let body = Self.sample()
        let deflated = try deflate(body)
        let raw = Array(deflated.dropFirst(2).dropLast(4))
        isRefused(raw, body.count, "raw deflate")
        let gzip: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3]
        isRefused(gzip + raw + [0, 0, 0, 0, 0, 0, 0, 0], body.count, "gzip")
        isRefused([0x78, 0xBB, 0, 0, 0, 1] + deflated.dropFirst(2), body.count, "preset dictionary")
        isRefused(body, body.count, "not compressed at all")
    }

    @Test func truncationAtEveryByteIsNoticed() throws {
        let body = Self.sample()
        let deflated = try deflate(body)
        for length in 0..<deflated.count { isRefused(Array(deflated[..<length]), body.count, "\(length) bytes") }
    }

    @Test func everyFlippedBitIsNoticedOrHarmless() throws {
        let body = Self.sample()
        let deflated = try deflate(body)
        for bit in 0..<deflated.count * 8 {
            var flipped = deflated
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            do {
                #expect(try inflate(flipped, to: body.count) == body, "bit \(bit) changed the body unnoticed")
            } catch {
                #expect(error as? BodyCompression.InflationError == .damaged)
            }
        }
    }

    @Test func aBombGoesOffWithinItsAnnouncement() throws {
        let zeros = [UInt8](repeating: 0, count: 64 << 20)
        let bomb = try deflate(zeros)
        #expect(bomb.count < 70_000)
        #expect(try inflate(bomb, to: zeros.count).count == zeros.count)
        for size in [0, 10, 1 << 20, zeros.count - 1] { isRefused(bomb, size) }

        var limits = Limits()
        limits.inflatedBytesMax = zeros.count - 1
        isRefused(bomb, zeros.count, limits: limits)
    }

    @Test func anAnnouncementBeyondTheLimitsCostsNothing() {
        isRefused([UInt8](repeating: 0x78, count: 1 << 20), (64 << 20) + 1, "more than the limit")
        isRefused([UInt8](repeating: 0x78, count: 100), 103_201, "more than deflate can yield")
        isRefused([0x78], Int.max, "more than there is")
        var limits = Limits()
        limits.inflatedBytesMax = .max
        isRefused([0x78], Int.max, limits: limits)
    }

    @Test func deflateYieldsOnlyWhatIsShorter() {
        #expect(BodyCompression.deflate([], level: 6) == nil)
        #expect(BodyCompression.deflate([1], level: 6) == nil)
        #expect(BodyCompression.deflate([1, 2, 3, 4], level: 6) == nil)
        #expect(BodyCompression.deflate([UInt8](repeating: 0, count: 100), level: 6) != nil)
    }
}
