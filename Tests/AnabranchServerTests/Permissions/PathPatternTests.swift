import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchServer

@Suite struct PathPatternTests {
    private static func question(_ partition: some Sequence<UInt8>, of user: String? = "u1") -> PermissionQuestion {
        PermissionQuestion(Principal(app: "demo", user: user), Array(partition))
    }

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
        #expect(try #require(PathPattern(pattern)).matches(Self.question(path.utf8)) == fits)
    }

    private static let uuid = #"{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}"#

    /// Patterns and partitions are compared as values; a pattern may have any spelling of a part.
    @Test(arguments: [
        (#"{"$oid":"*"}"#, #"{"$oid":"64b7f0aa0000000000000001"}"#, true),
        (#"{ "$oid" : "64B7*" }"#, #"{"$oid":"64b7f0aa0000000000000001"}"#, true),
        (#"{"$oid":"65*"}"#, #"{"$oid":"64b7f0aa0000000000000001"}"#, false),
        (#"{"$oid":"${user}"}"#, #"{"$oid":"u1"}"#, true),
        ("42", #"{"$numberLong":"42"}"#, true), ("42.0", #"{"$numberLong":"42"}"#, true),
        ("4*", #"{"$numberLong":"42"}"#, true), (#"{"$numberInt":"*"}"#, #"{"$numberLong":"42"}"#, true),
        (#"{ "$numberLong" : "4*" }"#, #"{"$numberLong":"42"}"#, true), ("43", #"{"$numberLong":"42"}"#, false),
        (#"{"$uuid":"00010203-*"}"#, uuid, true), (#"{"$uuid":"00010203-0405-0607-0809-0A0B0C0D0E0F"}"#, uuid, true),
        (#"{ "$binary" : { "subType" : "4", "base64" : "AAEC*" } }"#, uuid, true),
        (#"{ "$type" : "4", "$binary" : "AAEC*" }"#, uuid, true), (#"{"$binary":"*","$type":"00"}"#, uuid, false),
        (#"{"$uuid":"01*"}"#, uuid, false), (#""caf\u00e9 \/*""#, #""café /x""#, true), (#""*""#, #""42""#, true),
        (#""*""#, #"{"$numberLong":"42"}"#, false), ("null", "null", true), (" null ", "null", true),
        (#"{"$numberInt":"42"}"#, "42x", false), (#"{"a":"*"}"#, #"{"a":"b"}"#, true),
    ])
    func patternsOfValues(pattern: String, partition: String, fits: Bool) throws {
        #expect(try #require(PathPattern(pattern)).matches(Self.question(partition.utf8)) == fits)
    }

    @Test func randomSpellingsOfAPatternMatchTheirValue() throws {
        let seed = UInt64.random(in: 0 ... .max)
        var speller = PartitionSpeller(seed: seed)
        for round in 0..<10_000 {
            let value = speller.value(), text = String(decoding: speller.spelling(of: value), as: UTF8.self)
            let pattern = try #require(PathPattern(text))
            #expect(pattern.matches(Self.question(value.bytes, of: nil)), "seed \(seed), round \(round): \(text)")
        }
    }

    /// A sign that stands for something has an escape for itself.
    @Test(arguments: [
        (#""a\u002ab""#, #""a*b""#, true), (#""a\u002Ab""#, #""axb""#, false), (#""\u002a*""#, #""*x""#, true),
        (#""\u002a*""#, #""x*""#, false), (#""*\u002a""#, #""x*""#, true), (#""*\u002a""#, #""xx""#, false),
        (#""\u0024{user}""#, #""${user}""#, true), (#""\u0024{user}""#, #""u1""#, false),
        (#""${user}\u0024{user}""#, #""u1${user}""#, true), (#""$\u007buser}""#, #""${user}""#, true),
        (#""\\u002a""#, #""\\u002a""#, true), (#""\\u002a""#, #""\\*""#, false), (#""\\*""#, #""\\x""#, true),
        (#"{"$oid":"\u002a"}"#, #"{"$oid":"64b7f0aa0000000000000001"}"#, false),
        (#""a\u002a*"#, #""a*b""#, true), (#""a\u002a*"#, #""axb""#, false), (#"\u002a"#, "*", true),
        (#"\u002a"#, "x", false), (#"x\u0024{user}"#, "x${user}", true),
        ("\"*\u{301}\"", "\"e\u{301}\"", true), ("\"\u{e9}*\"", "\"e\u{301}x\"", false),
    ])
    func signsCanBeMeantAsSuch(pattern: String, partition: String, fits: Bool) throws {
        #expect(try #require(PathPattern(pattern)).matches(Self.question(partition.utf8)) == fits)
    }

    /// Unicode has letters that are none, which patterns are marked with while they are read.
    @Test func lettersThatAreNoneStandForThemselves() throws {
        let mark = String(decoding: [0xEF, 0xB7, 0x90], as: UTF8.self)
        for (pattern, partition, fits) in [
            (#""\ufdd0*""#, "\"\(mark)x\"", true), (#""\uFDD0""#, #""x""#, false), ("\"\(mark)\"", #""x""#, false),
            ("\"\(mark)*\"", "\"\(mark)\"", true), (mark, mark, true), (mark, "x", false),
        ] {
            #expect(try #require(PathPattern(pattern)).matches(Self.question(partition.utf8)) == fits, "\(pattern)")
        }
    }

    @Test(arguments: [#""a\*b""#, #"\*"#, #""\${user}""#, #"\$"#]) func otherEscapesOfThemAreRefused(pattern: String) {
        #expect(PathPattern(pattern) == nil)
    }

    /// An ident is the same text in a pattern and in the JSON of a partition.
    @Test func anIdentIsEscapedWhereItStandsInAText() throws {
        let pattern = try #require(PathPattern(#""user=${user}""#)), user = "a\"b\\c\n*"
        #expect(pattern.matches(Self.question(PartitionValue.string("user=" + user).bytes, of: user)))
        #expect(!pattern.matches(Self.question(PartitionValue.string("user=" + user + "x").bytes, of: user)))
        #expect(try #require(PathPattern("${user}")).matches(Self.question(user.utf8, of: user)))
    }

    @Test func aUsersIdentIsNoPattern() throws {
        let pattern = try #require(PathPattern("x${user}"))
        #expect(!pattern.matches(Self.question("xanything".utf8, of: "*")))
        #expect(pattern.matches(Self.question("x*".utf8, of: "*")))
        #expect(!pattern.matches(Self.question("x".utf8, of: nil)))
    }

    @Test func bytesThatAreNoTextAreMatched() throws {
        #expect(try #require(PathPattern("*")).matches(Self.question([0xff, 0x00, 0xfe], of: nil)))
    }

    @Test(arguments: [(255, true), (256, true), (257, false)]) func patternsAreShort(length: Int, isOne: Bool) {
        #expect((PathPattern(String(repeating: "*", count: length)) != nil) == isOne)
    }
}
