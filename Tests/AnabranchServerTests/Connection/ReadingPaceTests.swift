import Testing

@testable import AnabranchServer

/// How much is read of one client before the others have their turn.
@Suite struct ReadingPaceTests {
    private static func pace(afterFrames frames: [Int]) -> ReadingPace {
        var pace = ReadingPace()
        for count in frames {
            for _ in 0..<count { pace.countFrame() }
            _ = pace.endReading()
        }
        return pace
    }

    @Test func aReadingWithManyFramesIsFollowedByAShorterOne() {
        #expect(Self.pace(afterFrames: []).bytes == ReadingPace.bytesMax)
        #expect(Self.pace(afterFrames: [ReadingPace.framesMax]).bytes == ReadingPace.bytesMax)
        #expect(Self.pace(afterFrames: [ReadingPace.framesMax + 1]).bytes == ReadingPace.bytesMax / 8)
    }

    /// The shortest PING has 18 bytes with its frame.
    @Test func afterSomeReadingsAFloodBringsNoMoreThanTheLimit() {
        var pace = ReadingPace()
        for _ in 0..<10 {
            for _ in 0..<(pace.bytes / 18) { pace.countFrame() }
            _ = pace.endReading()
        }
        #expect(pace.bytes == ReadingPace.bytesMin)
        #expect(pace.bytes / 18 <= ReadingPace.framesMax)
    }

    @Test func longMessagesAreReadInLargePiecesAgain() {
        let flood = [Int](repeating: 10_000, count: 10)
        #expect(Self.pace(afterFrames: flood + [0]).bytes == 2 * ReadingPace.bytesMin)
        #expect(Self.pace(afterFrames: flood + [Int](repeating: 1, count: 10)).bytes == ReadingPace.bytesMax)
        #expect(Self.pace(afterFrames: flood + [Int](repeating: 5, count: 10)).bytes == ReadingPace.bytesMin)
    }

    @Test func itSaysWhetherAnythingHasChanged() {
        var pace = ReadingPace()
        func changes(after frames: Int) -> Bool {
            for _ in 0..<frames { pace.countFrame() }
            return pace.endReading()
        }
        #expect([0, 17, 16, 16, 4].map(changes) == [false, true, false, false, true])
    }
}
