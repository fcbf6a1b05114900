#if canImport(CLibPQ)
extension String {
    /// The name as SQL spells it.
    var quoted: String { "\"\(replacing("\"", with: "\"\""))\"" }

    /// The text as SQL spells it, whatever `standard_conforming_strings` is.
    var literal: String {
        let text = replacing("'", with: "''")
        return contains("\\") ? "E'\(text.replacing("\\", with: "\\\\"))'" : "'\(text)'"
    }
}
#endif
