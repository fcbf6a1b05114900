import AnabranchCore
import AnabranchTesting
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
        #expect(try #require(PathPattern(pattern)).matches(Array(partition.utf8), user: "u1") == fits)
    }

    @Test func randomSpellingsOfAPatternMatchTheirValue() throws {
        let seed = UInt64.random(in: 0 ... .max)
        var speller = PartitionSpeller(seed: seed)
        for round in 0..<10_000 {
            let value = speller.value(), text = String(decoding: speller.spelling(of: value), as: UTF8.self)
            let pattern = try #require(PathPattern(text))
            #expect(pattern.matches(value.bytes, user: nil), "seed \(seed), round \(round): \(text)")
        }
    }

    /// An ident is the same text in a pattern and in the JSON of a partition.
    @Test func anIdentIsEscapedWhereItStandsInAText() throws {
        let pattern = try #require(PathPattern(#""user=${user}""#)), user = "a\"b\\c\n*"
        #expect(pattern.matches(PartitionValue.string("user=" + user).bytes, user: user))
        #expect(!pattern.matches(PartitionValue.string("user=" + user + "x").bytes, user: user))
        #expect(try #require(PathPattern("${user}")).matches(Array(user.utf8), user: user))
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
