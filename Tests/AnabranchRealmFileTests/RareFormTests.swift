import AnabranchRealmFile
import AnabranchTesting
import Testing

/// Forms that no file of the reference has: they are read by the description of the format, and named.
@Suite struct RareFormTests {
    /// The only object of a file, and what was not seen.
    private func object(
        _ column: RealmFileBuilder.Column, _ values: Int64, in builder: RealmFileBuilder
    ) throws -> (line: String?, notSeen: [String]) {
        var builder = builder
        let key = builder.integers([5])
        let columns = [RealmFileBuilder.Column(name: "_id", type: 0), column]
        let file = builder.finish(columns, leaves: [(1, [key, values])])
        let (lines, report) = try Vectors.export(file)
        return (lines.last, report.notSeen)
    }

    @Test func aBinaryInPartsIsPutTogether() throws {
        var builder = RealmFileBuilder()
        let blob = builder.big([builder.blob([1, 2, 3]), builder.blob([]), builder.blob([4])])
        let values = builder.big([blob])
        let found = try object(RealmFileBuilder.Column(name: "b", type: 4), values, in: builder)
        #expect(found.line == #"["A",{"int":"5"},{"b":{"bin":"01020304"}}]"#)
        #expect(found.notSeen == ["a binary in parts"])
    }

    @Test func smallBinariesCanLackTheFlagsForNull() throws {
        var builder = RealmFileBuilder()
        let ends = builder.integers([2]), data = builder.blob([7, 8])
        let found = try object(RealmFileBuilder.Column(name: "b", type: 4), builder.refs([ends, data]), in: builder)
        #expect(found.line == #"["A",{"int":"5"},{"b":{"bin":"0708"}}]"#)
        #expect(found.notSeen == ["small binaries without nulls"])
    }

    /// The coefficient of the other form has the bits 100 in front: 2^23 + 1 here, with the exponent 1.
    @Test func aShortDecimalCanHaveTheOtherForm() throws {
        var builder = RealmFileBuilder()
        let word: UInt32 = 0x6000_0000 | 102 << 21 | 1
        let bytes = (0..<4).map { UInt8(truncatingIfNeeded: word >> UInt32(8 * $0)) }
        let values = builder.array(bytes, count: 1, kind: 1, widthCode: 3)
        let found = try object(RealmFileBuilder.Column(name: "d", type: 11), values, in: builder)
        #expect(found.line == #"["A",{"int":"5"},{"d":{"dec":"8.388609E7"}}]"#)
        #expect(found.notSeen == ["a Decimal of 4 bytes in the other form"])
    }

    /// Most texts are told apart by their first eight bytes, and these are not.
    @Test func textsThatAreKeysAreInTheOrderOfTheirBytes() throws {
        var builder = RealmFileBuilder()
        let leaves = [["note-1234567", "b"], ["", "note-123", "note-1234566"]].map { keys in
            (count: keys.count, values: [builder.shortStrings(keys)])
        }
        let file = builder.finish([RealmFileBuilder.Column(name: "_id", type: 2)], leaves: leaves)
        let lines = try Vectors.export(file).lines.suffix(5)
        let keys = ["", "b", "note-123", "note-1234566", "note-1234567"]
        #expect(Array(lines) == keys.map { #"["A","\#($0)",{}]"# })
    }

    /// The second node of a dictionary has two keys and one value, and is not counted; the first one is read.
    @Test func aDictionaryIsSalvagedNodeByNode() throws {
        var builder = RealmFileBuilder()
        func leaf(_ keys: [String], _ codes: [Int64]) -> Int64 {
            let values = builder.refs([builder.integers(codes), 0, 0, 0])
            return builder.refs([Int64(keys.count) << 1 | 1, builder.shortStrings(keys), values])
        }
        let leaves = [leaf(["a"], [7 << 8 | 1]), leaf(["b", "c"], [8 << 8 | 1])]
        let root = builder.integers([0, 1 << 1 | 1, 1 << 1 | 1] + leaves, flags: 0xC0)
        let columns = [
            RealmFileBuilder.Column(name: "_id", type: 0),
            RealmFileBuilder.Column(name: "d", type: 6 | 2 << 16, attributes: 64),
        ]
        var file = builder.finish(columns, leaves: [(1, [builder.integers([5]), builder.refs([root])])])
        // In this format, dictionaries are made like tables.
        file[21] = 22
        let (lines, report) = try Vectors.export(file, salvages: true)
        #expect(lines.last == #"["A",{"int":"5"},{"d":{"dict":{"a":{"int":"7"}}}}]"#)
        #expect(report.problemCount == 1)
    }

    // MARK: What takes no bytes of the file

    /// 25,600 objects, each with the one value of 60,000 bytes that an enumerated column has.
    private func enumerated(asKey isKey: Bool) -> [UInt8] {
        var builder = RealmFileBuilder()
        let text = [UInt8](repeating: 0x61, count: 60_000) + [0]
        let values = builder.big([builder.blob(text)])
        var leaves: [(count: Int, values: [Int64])] = []
        for leaf in 0..<100 {
            let numbers = isKey ? [] : [builder.integers((0..<256).map { Int64(256 * leaf + $0) })]
            leaves.append((256, numbers + [builder.zeros(256)]))
        }
        let column = RealmFileBuilder.Column(name: "text", type: 2, values: values)
        return builder.finish((isKey ? [] : [RealmFileBuilder.Column(name: "_id", type: 0)]) + [column], leaves: leaves)
    }

    @Test(arguments: [false, true]) func valuesThatTakeNoBytesHaveALimit(isKey: Bool) throws {
        let bytes = enumerated(asKey: isKey), limit = 64 * bytes.count + (16 << 20)
        var count = 0
        let error = #expect(throws: RealmFileError.self) {
            try RealmFile(RealmFileBytes(bytes)).export(salvages: true) { count += $0.count + 1 }
        }
        #expect(error?.code == .outputLimit)
        #expect(count <= limit)
    }
}
