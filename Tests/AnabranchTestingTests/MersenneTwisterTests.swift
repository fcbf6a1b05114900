import Testing

@testable import AnabranchTesting

/// The numbers that CPython 3.11 draws from `random.Random(seed)`.
@Suite struct MersenneTwisterTests {
    struct Draws: Sendable, CustomTestStringConvertible {
        var seed: Int
        var words: [UInt32]
        /// The 2000th word, after three renewals of the state.
        var word2000: UInt32
        var fraction: Double
        /// `randrange(10)` after that.
        var digits: [Int]
        /// `choices("abcd", (5, 3, 0, 2))` after those.
        var choices: String

        var testDescription: String { "seed \(seed)" }
    }

    static let draws = [
        Draws(
            seed: 0, words: [3_626_764_237, 1_654_615_998, 3_255_389_356], word2000: 3_908_016_617,
            fraction: 0.8444218515250481, digits: [6, 0, 4, 8, 7, 6, 4, 7], choices: "adaaaa"),
        Draws(
            seed: 1, words: [577_090_037, 2_444_712_010, 3_639_700_191], word2000: 1_058_062_369,
            fraction: 0.13436424411240122, digits: [1, 4, 1, 7, 7, 7, 6, 3], choices: "aadaba"),
        Draws(
            seed: -5, words: [2_675_342_405, 1_097_127_993, 3_185_950_873], word2000: 2_894_893_787,
            fraction: 0.6229016948897019, digits: [5, 8, 0, 7, 3, 0, 2, 1], choices: "adaaab"),
        Draws(
            seed: 1_099_511_627_779, words: [943_978_446, 261_273_136, 2_359_950_418], word2000: 1_104_738_298,
            fraction: 0.21978710637116716, digits: [8, 1, 9, 4, 6, 3, 7, 8], choices: "babaaa"),
    ]

    @Test(arguments: draws)
    func theSameWordsAreDrawn(_ expected: Draws) {
        var random = MersenneTwister(seed: expected.seed)
        #expect((0..<3).map { _ in random.word() } == expected.words)
        for _ in 3..<1999 { _ = random.word() }
        #expect(random.word() == expected.word2000)
    }

    @Test(arguments: draws)
    func theSameNumbersAreMadeOfThem(_ expected: Draws) {
        var random = MersenneTwister(seed: expected.seed)
        #expect(random.fraction() == expected.fraction)
        #expect((0..<8).map { _ in random.below(10) } == expected.digits)
        let choices = (0..<6).map { _ in random.choice(of: ["a", "b", "c", "d"], weights: [5, 3, 0, 2]) }
        #expect(choices.joined() == expected.choices)
    }
}
