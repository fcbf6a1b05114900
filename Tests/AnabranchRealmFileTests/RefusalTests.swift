import AnabranchRealmFile
import Testing

/// Files that are not read as a whole: each has a code and a reason.
@Suite struct RefusalTests {
    @Test func whatIsNoRealmFileIsRefused() throws {
        for bytes in [[], Array("no Realm file at all, only text".utf8), [UInt8](repeating: 0, count: 4_000)] {
            #expect(try Vectors.refusal(of: bytes)?.code == .noRealmFile)
        }
    }

    @Test func anEncryptedFileNeedsItsKey() throws {
        let file = try Vectors.bytes("35-encrypted")
        #expect(try Vectors.refusal(of: file)?.code == .keyMissing)
        #expect(try Vectors.refusal(of: file, key: Vectors.key) == nil)
        var wrong = Vectors.key
        wrong[63] ^= 1
        #expect(try Vectors.refusal(of: file, key: wrong)?.code == .wrongKey)
        // The MAC is right, and what comes out is not a Realm file.
        wrong = Vectors.key
        wrong[0] ^= 1
        #expect(try Vectors.refusal(of: file, key: wrong)?.code == .wrongKey)
        #expect(try Vectors.refusal(of: file, key: Array(Vectors.key.dropLast()))?.code == .wrongKey)
    }

    @Test func aKeyForAFileInClearIsRefused() throws {
        let refusal = try #require(try Vectors.refusal(of: try Vectors.bytes("21-many"), key: Vectors.key))
        #expect(refusal.code == .wrongKey)
        #expect(refusal.reason.contains("not encrypted"))
    }

    @Test(arguments: ["00-example", "21-many", "33-copy", "31-compacted", "37-encrypted-copy"])
    func aFileThatIsCutOffIsRefused(name: String) throws {
        let file = try Vectors.bytes(name), key = name.contains("encrypted") ? Vectors.key : nil
        let tail = name == "31-compacted" ? 60 : key == nil ? 8 : 4_096
        for count in [file.count - tail, file.count / 2 / 8 * 8] {
            #expect(try Vectors.refusal(of: Array(file.prefix(count)), key: key) != nil, "\(count) of \(file.count)")
        }
        #expect(try Vectors.refusal(of: Array(file.dropLast(tail)), key: key)?.code == .truncated)
    }

    @Test(arguments: [9, 2, 12, 19, 25, 255]) func otherFormatsAreNamed(format: UInt8) throws {
        var file = try Vectors.damaged("00-whole")
        file[20 + Int(file[23] & 1)] = format
        let refusal = try #require(try Vectors.refusal(of: file))
        #expect(refusal.code == .format)
        let word = format > 24 ? "newer" : format < 10 ? "older" : "none"
        #expect(refusal.reason.hasPrefix("format \(format) is \(word)"))
    }

    @Test func theOtherByteOrderIsNamed() throws {
        var file = try Vectors.damaged("00-whole")
        let start = 8 * Int(file[23] & 1)
        file[start..<start + 8].reverse()
        #expect(try Vectors.refusal(of: file)?.code == .byteOrder)
        var copy = try Vectors.bytes("33-copy")
        copy[(copy.count - 8)...].reverse()
        #expect(try Vectors.refusal(of: copy)?.code == .byteOrder)
    }

    @Test(arguments: [10, 11, 20, 21] as [UInt8]) func whatHasNotBeenComparedIsNamed(format: UInt8) throws {
        // Nothing in it depends on the format.
        var file = try Vectors.bytes("00-example")
        file[20 + Int(file[23] & 1)] = format
        let (lines, report) = try Vectors.export(file)
        #expect(lines.last == #"["A",{"int":"5"},{"d":{"dec":"1.5"},"s":"hello"}]"#)
        #expect(report.notSeen == ["format \(format)"])
    }

    @Test func aServersFileIsReadAndNamed() throws {
        var file = try Vectors.bytes("00-example")
        // The element of the top array that says the kind of the history, tagged.
        file[0x1D0 + 8 + 4 * 7] = 9
        let (lines, report) = try Vectors.export(file)
        #expect(lines.count == 3)
        #expect(report.notSeen == ["a history of the kind 4"])
        #expect(try RealmFile(RealmFileBytes(file)).history == .syncServer)
    }
}
