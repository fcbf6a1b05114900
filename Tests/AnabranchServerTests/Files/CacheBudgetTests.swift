import AnabranchHistory
import Testing

@testable import AnabranchServer

@Suite struct CacheBudgetTests {
    @Test("when there is too much, the files that had nothing to do for the longest time release theirs, to the half")
    func release() {
        let budget = CacheBudget(bytesMax: 100)
        let paths = (0..<5).map { VirtualPath("/\($0)") }
        let released = (paths.prefix(4) + [paths[0]]).map { budget.record($0, 25) }
        #expect(released == Array(repeating: [], count: 5))
        let last = budget.record(paths[4], 1)
        #expect(last == [paths[1], paths[2], paths[3]])
        #expect(budget.byteCount == 26)
        let none = budget.record(paths[0], 0) + budget.record(paths[4], 0)
        #expect(none.isEmpty && budget.byteCount == 0)
    }
}
