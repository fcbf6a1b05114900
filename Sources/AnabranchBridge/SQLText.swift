#if canImport(CLibPQ)
import AnabranchCore

extension String {
    /// The name as SQL spells it.
    var quoted: String { "\"\(escaping("\""))\"" }

    /// The text as SQL spells it, whatever `standard_conforming_strings` is.
    var literal: String {
        let text = escaping("'\\")
        return text.utf8.contains(UInt8(ascii: "\\")) ? "E'\(text)'" : "'\(text)'"
    }
}
#endif
