/// The families of benchmark cases that are not about lists.
enum ObjectCases {
    static func objects(_ sizes: [Int]) -> [BenchmarkCase] {
        sizes.flatMap { count in
            [
                BenchmarkCase(name: "objects-independent-\(count)") { both(0, count) { [independent(count, $0)] } },
                BenchmarkCase(name: "objects-conflict-\(count)") { both(0, 1) { [conflicting(count, $0)] } },
                BenchmarkCase(name: "objects-linked-\(count)") { both(0, count) { [linked(count, $0)] } },
                BenchmarkCase(name: "tx-independent-\(count)x\(count)") { both(0, count) { transactions(count, $0) } },
            ]
        }
    }

    static func erasedColumn(_ sizes: [Int]) -> [BenchmarkCase] {
        sizes.map { count in
            BenchmarkCase(name: "schema-erase-column-\(count)") {
                var erasing = ChangesetWriter()
                erasing.write(.eraseColumn("T", "gone"))
                writeObjects(0..<count, from: 0, to: &erasing)
                var other = ChangesetWriter()
                writeObjects(0..<count, from: count, to: &other)
                return BenchmarkCase.Sides(local: [erasing], incoming: [other])
            }
        }
    }

    static func addedSchema(_ sizes: [Int]) -> [BenchmarkCase] {
        sizes.map { count in
            BenchmarkCase(name: "schema-add-\(count)") { both(0, 1) { _ in [schema(count)] } }
        }
    }

    /// Makes each side from its number.
    private static func both(
        _ local: Int, _ incoming: Int, _ side: (Int) -> [ChangesetWriter]
    ) -> BenchmarkCase.Sides {
        BenchmarkCase.Sides(local: side(local), incoming: side(incoming))
    }

    private static func writeObjects(_ range: Range<Int>, from start: Int, to changeset: inout ChangesetWriter) {
        for number in range {
            changeset.createObject("T", start + number)
            changeset.update("T", start + number, "i", to: number)
        }
    }

    private static func independent(_ count: Int, _ start: Int) -> ChangesetWriter {
        var changeset = ChangesetWriter()
        writeObjects(0..<count, from: start, to: &changeset)
        return changeset
    }

    private static func conflicting(_ count: Int, _ offset: Int) -> ChangesetWriter {
        var changeset = ChangesetWriter()
        for number in 0..<count { changeset.update("T", number, "i", to: number + offset) }
        return changeset
    }

    /// All objects link to one that exists already.
    private static func linked(_ count: Int, _ start: Int) -> ChangesetWriter {
        var changeset = ChangesetWriter()
        for number in start..<start + count {
            changeset.createObject("T", number)
            changeset.updateLink("T", number, "l", to: ("T", -1))
        }
        return changeset
    }

    private static func transactions(_ count: Int, _ start: Int) -> [ChangesetWriter] {
        (0..<count).map { number in
            var changeset = ChangesetWriter()
            writeObjects(number..<number + 1, from: start, to: &changeset)
            return changeset
        }
    }

    private static func schema(_ count: Int) -> ChangesetWriter {
        var changeset = ChangesetWriter()
        for number in 0..<count {
            changeset.write(.addTable("C\(number)"))
            for column in 0..<8 { changeset.addColumn("C\(number)", "f\(column)") }
        }
        return changeset
    }
}
