import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchProtocol

/// Messages that say they are something else than they are: each is refused with the right code, and for no more work
/// than an honest message of its size makes. The work is counted in bytes that were inflated.
@Suite struct BombTests {
    private struct Bomb {
        let name: String
        let body: [UInt8]
        let announced: Int
        let inflatedMax: Int

        init(_ name: String, _ body: [UInt8], announcing announced: Int, inflates inflatedMax: Int) {
            (self.name, self.body, self.announced, self.inflatedMax) = (name, body, announced, inflatedMax)
        }

        /// How many bytes are inflated before it is refused; nil if it is not.
        func work() -> Int? {
            var inflated = 0
            let result = try? BodyCompression.inflate(body[...], to: announced, limits: Limits()) { begun in
                inflated = max(inflated, begun.count)
                return false
            }
            return result == nil ? inflated : nil
        }
    }

    private static let part = 64 << 10

    private static func bombs() throws -> [Bomb] {
        var random = SeededRandom(seed: 6)
        let honest = (0..<6_000).map { _ in UInt8(random.below(40)) }
        let deflated = try #require(BodyCompression.deflate(honest, level: 6))
        #expect((3_500...4_500).contains(deflated.count))
        let gibibyte = ZlibBomb.zeros(1 << 30), all = Limits().inflatedBytesMax
        #expect(gibibyte.count < 1 << 20 + 70_000)
        return [
            Bomb("4 GiB claimed with 4 KB", deflated, announcing: 4 << 30, inflates: 0),
            Bomb("4 GiB - 1 claimed with 4 KB", deflated, announcing: 4 << 30 - 1, inflates: 0),
            Bomb("64 MiB claimed with 4 KB", deflated, announcing: all, inflates: 0),
            Bomb(
                "as much as 4 KB can be at most", deflated, announcing: 1_032 * deflated.count, inflates: honest.count),
            Bomb("2^63 - 1 bytes claimed", deflated, announcing: .max, inflates: 0),
            Bomb("a GiB that says 100 bytes", gibibyte, announcing: 100, inflates: 100),
            Bomb("a GiB that says nothing", gibibyte, announcing: 0, inflates: 0),
            Bomb("a GiB that says all it may", gibibyte, announcing: all, inflates: all),
            Bomb("a GiB that says more than it may", gibibyte, announcing: all + 1, inflates: 0),
            Bomb("a GiB that says so", gibibyte, announcing: 1 << 30, inflates: 0),
            Bomb("a byte less than there is", deflated, announcing: honest.count - 1, inflates: honest.count - 1),
            Bomb("a byte more than there is", deflated, announcing: honest.count + 1, inflates: honest.count),
            Bomb("a byte after the end", deflated + [0], announcing: honest.count, inflates: honest.count),
            Bomb("garbage after the end", deflated + honest, announcing: honest.count, inflates: honest.count),
            Bomb("a second stream", deflated + deflated, announcing: 2 * honest.count, inflates: honest.count),
            Bomb("a GiB after the end", deflated + gibibyte, announcing: honest.count, inflates: honest.count),
        ]
    }

    @Test func everyBombIsRefusedForLittle() throws {
        for bomb in try Self.bombs() {
            let message = compressedUpload(bomb.body, inflatingTo: bomb.announced)
            #expect(violation(message) == .badDecompression, "\(bomb.name)")
            let work = try #require(bomb.work(), "\(bomb.name)")
            #expect(work <= bomb.inflatedMax, "\(bomb.name): \(work) bytes")
        }
    }

    /// A refused message leaves nothing behind.
    @Test func aThousandBombsAreAThousandTimesTheWorkOfOne() throws {
        for bomb in try Self.bombs() where bomb.inflatedMax < 1 << 20 {
            var work = 0
            for _ in 0..<1_000 { work += try #require(bomb.work()) }
            #expect(work <= 1_000 * bomb.inflatedMax, "\(bomb.name)")
        }
    }

    /// A head that lies about what follows it.
    @Test func sizesThatAreNotThoseOfTheBodyAreRefusedBeforeAnythingIsInflated() {
        let body = [UInt8](repeating: 0x78, count: 4_096)
        for (flag, announced, compressed) in [
            (1, 4 << 30, 4 << 30), (1, 100, 4 << 30), (1, 100, 4_095), (1, 100, 4_097), (1, 100, 0), (0, 4 << 30, 0),
            (0, 4_096, 4_096), (0, 4_095, 0), (0, Int.max, 0), (1, Int.max, Int.max),
        ] {
            let head = "upload 1 \(flag) \(announced) \(compressed) 9 0 0\n"
            #expect(violation(bytes(head) + body) == .badSyntax, "\(head)")
        }
        for head in ["bind 1 \(4 << 30) 0 0 0\n", "bind 1 0 \(4 << 30) 0 0\n", "json_error 1 \(4 << 30) 1\n"] {
            #expect(violation(bytes(head) + body) == .badSyntax, "\(head)")
        }
    }

    /// Of entries without a byte as many fit into a message as it has room for: no more are inflated than are allowed.
    @Test func aBodyOfEmptyEntriesIsInflatedUntilThereAreTooMany() throws {
        let entry = bytes("1 0 5 0 1 x"), count = 1_000_000
        let body = [UInt8](repeatElement(entry, count: count).joined())
        let deflated = try #require(BodyCompression.deflate(body, level: 6))
        #expect(violation(compressedUpload(deflated, inflatingTo: body.count)) == .badSyntax)
        var inflated = 0, counter = EntryCounter<UploadedChangeset>()
        _ = try BodyCompression.inflate(deflated[...], to: body.count, limits: Limits()) { begun in
            inflated = begun.count
            return counter.count(in: begun) > Limits().uploadChangesetsMax
        }
        #expect(inflated <= entry.count * Limits().uploadChangesetsMax + Self.part)
    }
}
