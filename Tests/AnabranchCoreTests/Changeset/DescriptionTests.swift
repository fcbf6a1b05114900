import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchCore

@Suite struct DescriptionTests {
    private let tag = OriginTag(timestamp: 0, ident: 0)

    @Test func linesNamePlacesAndValuesExactly() throws {
        let place = Place(
            object: ObjectName(className: "My class", key: .string(Array("a\"b".utf8))), field: "d",
            path: ["key", 2, "ä"])
        let marker = Decimal128(low: 0xAA, high: 0x7C00_0000_0000_0000)
        let uuid = try #require(UUIDBytes(0..<16))
        #expect(
            try lines([
                .update(place, .text("line\n\u{1}\\")), .update(.at("f"), .string([0xFF, 0x00])),
                .update(.at("f"), .binary([])), .update(.at("f"), .decimal(marker)),
                .update(.at("f"), .double(.nan), isDefault: true), .update(.at("f"), .float(0.1)),
                .update(.at("f"), .timestamp(Timestamp(seconds: 0, nanoseconds: -5))),
                .update(.at("f"), .timestamp(Timestamp(seconds: .min, nanoseconds: -999_999_999))),
                .update(.at("f"), .link(className: Array("B".utf8), key: .uuid(uuid))),
                .update(.at("f"), .link(className: Array("B".utf8), key: .null)),
                .setErase(.at("s"), .uuid(uuid)), .addColumn("A", "m", .null, nullable: true, .set),
                .addTable("A", nullable: true),
            ]) == [
                #"Update "My class"["a\"b"].d["key"][2]["ä"] = String "line\u000a\u0001\\""#,
                #"Update A[1].f = String x"ff00""#, #"Update A[1].f = Binary x"""#,
                "Update A[1].f = Decimal NaN 0x7c0000000000000000000000000000aa",
                "Update A[1].f = Double NaN 0x7ff8000000000000 (default)", "Update A[1].f = Float 0.1",
                "Update A[1].f = Timestamp -0.000000005 s",
                "Update A[1].f = Timestamp -9223372036854775808.999999999 s",
                "Update A[1].f = Link B[UUID 00010203-0405-0607-0809-0a0b0c0d0e0f]", "Update A[1].f = Link B[null]",
                "SetErase A[1].s UUID 00010203-0405-0607-0809-0a0b0c0d0e0f", "AddColumn A.m Mixed nullable, Set",
                "AddTable A TopLevel, primary key _id Int nullable",
            ])
    }

    @Test func namesThatAreNotUTF8Survive() throws {
        var arena = ChangesetArena()
        let changeset = try arena.decode(Hex.bytes("3f0002ff41 02 00 03 00"), version: 1, tag: tag)
        #expect(arena.text(of: changeset) == "strings: 0=x\"ff41\"\nCreateObject x\"ff41\"[x\"ff41\"]\n")
        #expect(
            arena.json(of: changeset)
                == """
                {"strings":[{"bytes":"ff41"}],"instructions":[
                {"instruction":"CreateObject","class":{"bytes":"ff41"},"key":{"bytes":"ff41"}}]}
                """)
    }

    @Test func jsonHasAnObjectForEachInstruction() throws {
        let linked = Place(object: ObjectName(key: .globalKey(GlobalKey(high: 255, low: 1))), field: "d", path: ["k"])
        var arena = ChangesetArena()
        let changeset = try arena.decode(
            AnabranchCoreTests.changeset(
                .addTable("A"), .addTable("E", .embedded), .eraseTable("E"), .addColumn("A", "l", .link, .dictionary),
                .eraseColumn("A", "l"), .createObject(), .eraseObject(),
                .update(linked, .link("B", -2)), .update(.item(3), .decimal(Decimal128(low: 1050, high: 0x303C << 48))),
                .addInteger(.at("i"), -3), .insert(.item(0), .objectValue), .move(.item(1), to: 2), .erase(.item(4)),
                .clear(.at("s"), .set), .setInsert(.at("s"), .timestamp(Timestamp(seconds: -1, nanoseconds: -2))),
                .setErase(.at("s"), .double(1.5)), .update(.at("b"), .bool(true)), .update(.at("n"), .null)),
            version: 1, tag: tag)
        let lines = arena.json(of: changeset).split(separator: "\n")
        #expect(lines.first == #"{"strings":["A","_id","E","l","B","d","k","i","s","b","n"],"instructions":["#)
        #expect(
            lines.dropFirst().map(String.init) == [
                #"{"instruction":"AddTable","class":"A","tableType":"TopLevel","primaryKey":{"field":"_id","type":"Int","nullable":false}},"#,
                #"{"instruction":"AddTable","class":"E","tableType":"Embedded"},"#,
                #"{"instruction":"EraseTable","class":"E"},"#,
                #"{"instruction":"AddColumn","class":"A","field":"l","type":"Link","nullable":false,"collection":"Dictionary","target":"B","keyType":"String"},"#,
                #"{"instruction":"EraseColumn","class":"A","field":"l"},"#,
                #"{"instruction":"CreateObject","class":"A","key":{"int":"1"}},"#,
                #"{"instruction":"EraseObject","class":"A","key":{"int":"1"}},"#,
                #"{"instruction":"Update","class":"A","key":{"gk":"ff-1"},"field":"d","path":["k"],"value":{"link":["B",{"int":"-2"}]},"default":false},"#,
                #"{"instruction":"Update","class":"A","key":{"int":"1"},"field":"l","path":[3],"value":{"dec":"10.50"},"priorSize":5},"#,
                #"{"instruction":"AddInteger","class":"A","key":{"int":"1"},"field":"i","path":[],"amount":{"int":"-3"}},"#,
                #"{"instruction":"ArrayInsert","class":"A","key":{"int":"1"},"field":"l","path":[0],"value":{"type":"ObjectValue"},"priorSize":5},"#,
                #"{"instruction":"ArrayMove","class":"A","key":{"int":"1"},"field":"l","path":[1],"to":2,"priorSize":5},"#,
                #"{"instruction":"ArrayErase","class":"A","key":{"int":"1"},"field":"l","path":[4],"priorSize":5},"#,
                #"{"instruction":"Clear","class":"A","key":{"int":"1"},"field":"s","path":[],"collection":"Set"},"#,
                #"{"instruction":"SetInsert","class":"A","key":{"int":"1"},"field":"s","path":[],"value":{"ts":["-1",-2]}},"#,
                #"{"instruction":"SetErase","class":"A","key":{"int":"1"},"field":"s","path":[],"value":{"double":"3ff8000000000000"}},"#,
                #"{"instruction":"Update","class":"A","key":{"int":"1"},"field":"b","path":[],"value":true,"default":false},"#,
                #"{"instruction":"Update","class":"A","key":{"int":"1"},"field":"n","path":[],"value":null,"default":false}]}"#,
            ])
    }

    @Test func jsonOfAnyChangesetIsJSONWithAllItsInstructions() throws {
        for seed in Seeds.upTo(200) {
            var random = RandomSteps(seed: seed)
            var arena = ChangesetArena()
            let changeset = try arena.decode(AnabranchCoreTests.changeset(random.steps(15)), version: 1, tag: tag)
            let value = try JSONSerialization.jsonObject(with: Data(arena.json(of: changeset).utf8)) as? [String: Any]
            let instructions = value?["instructions"] as? [[String: Any]]
            #expect(instructions?.count == 15, "\(Seeds.repeatCommand("jsonOfAnyChangeset", seed: seed))")
            let names = instructions?.compactMap { $0["instruction"] as? String }
            #expect(names == arena.instructions(of: changeset).map(\.kind.description))
        }
    }

    @Test func stringsAreEscapedInOneWay() {
        var text: [UInt8] = []
        JSONText.append(string: Array("a\"\\/\u{0}\t\u{1f} \u{7f}é".utf8) + [0xFF], to: &text)
        #expect(text == Array(#""a\"\\/\u0000\u0009\u001f "#.utf8) + [0x7F, 0xC3, 0xA9, 0xFF, UInt8(ascii: "\"")])
    }
}
