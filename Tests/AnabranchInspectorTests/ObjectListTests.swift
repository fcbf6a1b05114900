import AnabranchCore
import AnabranchHistory
import Testing

@testable import AnabranchInspector

/// The lists of objects that tables show.
@Suite struct ObjectListTests {
    /// A list in a Mixed can be as long as an object is large, and there are 200,000 of them.
    @Test func whatIsPutInOrderHasNoContents() throws {
        var graph = ObjectGraph()
        let value = try graph.write(as: 2) { tx in
            try tx.addClass("Note", key: "_id", .int)
            try tx.addColumn("any", .null, isNullable: true, to: "Note")
            let note = try tx.create("Note", key: 1)
            try note.set("any", to: .list)
            for number in 0..<10 as Range<Int64> { try note.list("any").append(.int(number)) }
        }.changes
        #expect(!value.objects.isEmpty)
        let schema = try #require(graph.schema(ofClass: Array("Note".utf8)))
        let property = try #require(schema.property(named: Array("any".utf8)))
        let object = try #require(try graph.object(ObjectReference(classID: schema.number, key: 1)))
        let list = object.value(of: property)
        guard case .list(let whole) = list, case .list(let ordered) = list.ordered else {
            Issue.record("\(list)")
            return
        }
        #expect(whole.count == 10 && ordered.count == 0)
        #expect(StateValue.compare(list, list.ordered) == 0 && StateValue.compare(.int(3), list.ordered) < 0)
    }

    @Test func questionsThatLookAlikeAreTwo() {
        let lists = ObjectLists()
        func list(_ className: ExactString, _ filter: ExactString) -> ObjectList {
            let question = ObjectList.Question(file: SyncedFileID(7), className: className, filter: filter)
            return lists.list(question, begunAt: nil, now: 1)
        }
        let first = list("Note", "title == '\u{e9}'")
        #expect(list("Note", "title == '\u{e9}'") === first)
        #expect(list("Note", "title == 'e\u{301}'") !== first)
        #expect(list("\u{e9}", "TRUEPREDICATE") !== list("e\u{301}", "TRUEPREDICATE"))
    }
}
