import Testing

@testable import AnabranchCore

@Suite struct ExcerptTests {
    @Test func whatIsShortStays() {
        for count in 0...64 {
            let text = String(repeating: "a", count: count)
            #expect(String(excerptOf: text.utf8) == text)
        }
    }

    @Test func oneByteMoreIsCut() {
        let kept = String(repeating: "a", count: String.excerptBytesMax)
        #expect(String(excerptOf: (kept + "b").utf8) == "\(kept)… (65 bytes)")
    }

    @Test("what is longer is cut before the character that crosses the limit, and says how long it is")
    func cuts() {
        for (character, bytes) in [("a", 1), ("ä", 2), ("€", 3), ("😀", 4)] {
            for shift in 0..<4 {
                let text = String(repeating: "-", count: shift) + String(repeating: character, count: 100)
                let kept =
                    String(repeating: "-", count: shift)
                    + String(repeating: character, count: (64 - shift) / bytes)
                #expect(String(excerptOf: text.utf8) == "\(kept)… (\(shift + 100 * bytes) bytes)")
            }
        }
    }

    @Test func whatIsNoTextIsBoundedToo() {
        #expect(String(excerptOf: [UInt8](repeating: 0x80, count: 1_000)).utf8.count < 300)
        #expect(String(excerptOf: [UInt8](repeating: 0xff, count: 1_000)).utf8.count < 300)
    }
}
