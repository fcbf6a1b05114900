import AnabranchCore
import AnabranchHistory
import Testing

@testable import AnabranchInspector

/// The lists of objects that tables show.
@Suite struct ObjectListTests {
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
