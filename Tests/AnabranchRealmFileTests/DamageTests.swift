import AnabranchRealmFile
import Testing

/// Whatever stands in a file, reading ends, and says where it was wrong.
@Suite struct DamageTests {
    @Test func damageIsNamedWithItsPlace() throws {
        let refusal = try #require(try Vectors.refusal(of: try Vectors.damaged("06-enumerated-index-outside")))
        #expect(refusal.code == .damaged)
        #expect(refusal.place.className == "A")
        #expect(refusal.place.property == "e")
        #expect(refusal.place.offset == 0x190)
        #expect("\(refusal)" == "class A, property e, byte 400: string 2 of 2 that the column has")
    }

    @Test func aDamagedLinkIsNamedWithItsObject() throws {
        let (lines, report) = try Vectors.export(try Vectors.damaged("10-link-in-list"), salvages: true)
        #expect(lines.count == 8)
        let problem = try #require(report.problems.first)
        #expect(problem.place.object == #"{"int":"1"}"# && problem.place.property == "k")
        #expect(report.problemCount == 1)
    }

    /// All bytes of a file, changed in three ways each: every file is read, or refused with a place.
    @Test(arguments: [false, true]) func everyChangedByteIsReadOrRefused(salvages: Bool) throws {
        let whole = try Vectors.damaged("00-whole")
        var refused = 0
        for index in whole.indices {
            for change: UInt8 in [0x01, 0x08, 0x80] {
                var file = whole
                file[index] ^= change
                do {
                    _ = try Vectors.export(file, salvages: salvages)
                } catch let error as RealmFileError {
                    refused += 1
                    #expect(!error.reason.isEmpty)
                    #expect(
                        error.code != .damaged || error.place.offset != nil || error.place.className != nil, "\(index)")
                    // What can be salvaged is: only the file as a whole is refused.
                    #expect(!salvages || error.place.className == nil, "\(index): \(error)")
                }
            }
        }
        #expect(refused > 100)
    }

    /// A number that is not a ref, wherever there may be one: most often it has no place of its own.
    @Test(arguments: ["41-synced-with-ident", "50-format-22-many"])
    func whatStandsInPlaceOfARefHasAPlace(name: String) throws {
        let whole = try Vectors.bytes(name)
        var refused = 0
        // About 1,000 places.
        for index in stride(from: 24, to: whole.count - 2, by: max(8, whole.count / 8_000 * 8)) {
            var file = whole
            (file[index], file[index + 1]) = (0xb6, 0x05)
            guard let error = try Vectors.refusal(of: file) else { continue }
            refused += 1
            #expect(error.place.offset != nil || error.place.className != nil, "\(name), byte \(index): \(error)")
        }
        #expect(refused > 20)
    }

    @Test(arguments: ["41-synced-with-ident", "45-synced-dangling-links", "20-nested", "50-format-22-types"])
    func everyCutIsReadOrRefused(name: String) throws {
        let whole = try Vectors.bytes(name)
        for count in stride(from: 0, to: whole.count, by: 509) {
            #expect(try Vectors.refusal(of: Array(whole.prefix(count))) != nil)
        }
    }

    @Test func aDamagedPageIsNamedWhereSomethingLiesInIt() throws {
        var file = try Vectors.bytes("36-encrypted-many-pages")
        // The first page of data, which has the header, and the last that was written.
        let entries = (0..<64).filter { file[64 * $0..<64 * $0 + 4].contains { $0 != 0 } }
        let last = try #require(entries.last)
        file[(last + 1) * 4_096] ^= 1
        let refusal = try Vectors.refusal(of: file, key: Vectors.key)
        #expect(refusal == nil || refusal?.code == .damaged && refusal?.place.offset == last * 4_096)
        file[4_096] ^= 1
        #expect(try Vectors.refusal(of: file, key: Vectors.key)?.code == .wrongKey)
    }

    @Test func theLimitEndsAnExportAtAWholeLine() throws {
        let whole = try Vectors.export(try Vectors.damaged("00-whole"))
        var lines: [String] = []
        let file = try RealmFile(RealmFileBytes(try Vectors.damaged("00-whole")))
        let error = #expect(throws: RealmFileError.self) {
            try file.export(outputLimit: 992) { lines.append(String(decoding: $0, as: UTF8.self)) }
        }
        #expect(lines == Array(whole.lines.prefix(4)))
        #expect(error?.code == .outputLimit)
        #expect(error?.reason.contains("after line 4 (") == true)
        #expect(error?.reason.hasSuffix(#"before the object {"int":"2"} of A"#) == true)
    }
}
