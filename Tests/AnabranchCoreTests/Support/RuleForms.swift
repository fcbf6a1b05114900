/// Where a rule stands in more than one form, for the messages of the tests that compare the forms.
enum RuleForms {
    /// All rules of lists are stated in `ListArithmetic` alone, but for one.
    static let tieOfInserts = """
        If the tie of R14 was changed (two inserts at one place), it has to be changed in three files: \
        Rules/ListArithmetic.swift (insertInsert), Lists/ShiftGrid.swift (the order of SortKey) and \
        Lists/RegionMerge.swift (which insert comes first).
        """
}
