import Testing

@testable import AnabranchServer

/// The order in which files have their turns.
@Suite struct ReadyFilesTests {
    @Test("a worker is left for short turns, and who was woken for a long one in vain is woken again")
    func workersOfLongTurns() throws {
        let rig = TurnRig()
        let files = try (0..<3).map { number in
            let client = try rig.join("//\(number)", count: 1)[0]
            return try #require(rig.files.queue(of: client.path))
        }
        var ready = ReadyFiles(longTurnsMax: 1)
        for file in files { ready.append(file, for: .long) }
        let first = ready.popFirst(), none = ready.popFirst()
        #expect(first === files[0] && none == nil)
        let isWokenForShort = ready.promote(files[1])
        #expect(isWokenForShort)
        let short = ready.popFirst(), noneAgain = ready.popFirst()
        #expect(short === files[1] && noneAgain == nil)
        let isWokenByShort = ready.didEndTurn(of: files[1]), isWokenByLong = ready.didEndTurn(of: files[0])
        let isWokenTwice = ready.didEndTurn(of: files[0]), last = ready.popFirst()
        #expect(!isWokenByShort && isWokenByLong && !isWokenTwice && last === files[2])
    }
}
