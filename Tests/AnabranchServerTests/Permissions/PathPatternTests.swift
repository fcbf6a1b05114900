import Testing

@testable import AnabranchServer

@Suite struct PathPatternTests {
    @Test(arguments: [
        ("*", "", true), ("*", "anything", true), ("", "", true), ("", "x", false), ("a", "a", true), ("a", "b", false),
        ("a*", "a", true), ("a*", "abc", true), ("a*", "ba", false), ("*c", "abc", true), ("*c", "abd", false),
        ("a*c", "ac", true), ("a*c", "abcbc", true), ("a*c", "abcb", false), ("a*b*c", "axbxbxc", true),
        ("**", "x", true), ("*a*", "bab", true), ("*a*", "bbb", false), ("a?c", "abc", false), ("[a]", "a", false),
        (#""user=${user}""#, #""user=u1""#, true), (#""user=${user}""#, #""user=u2""#, false),
        ("${user}*", "u1/x", true), ("*${user}", "x u1 u1", true), ("${user}${user}", "u1u1", true),
        ("${user", "${user", true), ("$user", "$user", true),
    ])
    func patterns(pattern: String, path: String, fits: Bool) throws {
        #expect(try #require(PathPattern(pattern)).matches(Array(path.utf8), user: "u1") == fits)
    }

    @Test func aUsersIdentIsNoPattern() throws {
        let pattern = try #require(PathPattern("x${user}"))
        #expect(!pattern.matches(Array("xanything".utf8), user: "*"))
        #expect(pattern.matches(Array("x*".utf8), user: "*"))
        #expect(!pattern.matches(Array("x".utf8), user: nil))
    }

    @Test func bytesThatAreNoTextAreMatched() throws {
        #expect(try #require(PathPattern("*")).matches([0xff, 0x00, 0xfe], user: nil))
    }

    @Test(arguments: [(255, true), (256, true), (257, false)]) func patternsAreShort(length: Int, isOne: Bool) {
        #expect((PathPattern(String(repeating: "*", count: length)) != nil) == isOne)
    }
}
