import AnabranchChunks
import AnabranchTesting
import Testing

/// The form of contents in the log.
@Suite struct ManifestTests {
    private static func hash(_ number: UInt8) -> ChunkHash { ChunkHash(of: [number]) }

    @Test func aContentIsReadAsItWasWritten() throws {
        let size = Int64(2 * Manifest.chunkBytes + 5)
        let content = try #require(
            Manifest(size: size, chunks: (1...3).map(Self.hash), ancestors: (10..<30).map(Self.hash)))
        #expect(content.ancestors.count == Manifest.ancestorsMax)
        #expect(content.ancestors.first == Self.hash(10))
        #expect(Manifest(content.bytes) == content)
        #expect((0..<3).map(content.byteCount) == [Manifest.chunkBytes, Manifest.chunkBytes, 5])
        #expect(content.bytes.count == 14 + 32 * 19)
        #expect(Manifest(Manifest.empty.bytes) == .empty)
        #expect(Manifest(Manifest.awaited.bytes) == .awaited && Manifest.awaited.id != Manifest.empty.id)
        #expect(Manifest.empty.bytes == [1, 0] + [UInt8](repeating: 0, count: 12))
    }

    /// The hash of nothing is that of the standard.
    @Test func hashesAreOfSHA256() {
        #expect("\(ChunkHash(of: []))" == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        #expect(ChunkHash(hex: "\(Self.hash(1))") == Self.hash(1))
        #expect(ChunkHash(hex: "\(Self.hash(1))".uppercased()) == nil)
        #expect(ChunkHash(hex: "e3b0") == nil)
    }

    @Test func whatIsNoContentIsRefused() throws {
        let good = try #require(Manifest(size: 5, chunks: [Self.hash(1)], ancestors: [Self.hash(2)])).bytes
        for count in good.indices { #expect(Manifest(Array(good[..<count])) == nil) }
        #expect(Manifest(good + [0]) == nil)
        for (place, byte) in [(0, 2), (1, 17), (1, 0), (34, 0xFF), (41, 0), (45, 9)] as [(Int, UInt8)] {
            var bad = good
            bad[place] = byte
            #expect(Manifest(bad) == nil, "byte \(place)")
        }
        #expect(Manifest(size: -1, chunks: []) == nil)
        #expect(Manifest(size: 1, chunks: []) == nil)
        #expect(Manifest(size: .max, chunks: []) == nil)
    }
}
