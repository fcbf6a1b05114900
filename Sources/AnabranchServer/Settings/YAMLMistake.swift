import Yams

/// The words for a text that is not YAML.
package enum YAMLMistake {
    /// An error of Yams in one line, without the piece of the text that Yams shows: "line 3, column 10: did not find
    /// expected ',' or '}' while parsing a flow mapping of line 1".
    package static func line(_ error: any Error) -> String {
        switch error {
        case YamlError.scanner(let context, let problem, let mark, let text),
            YamlError.parser(let context, let problem, let mark, let text),
            YamlError.composer(let context, let problem, let mark, let text):
            let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
            if let line = lines.firstIndex(where: { $0.drop { $0 == " " }.hasPrefix("//") }) {
                return "line \(line + 1) begins with //: a comment begins with # in YAML"
            }
            let place = context.map { " \($0.text) of line \($0.mark.line)" } ?? ""
            return "line \(mark.line), column \(mark.column): \(problem)\(place)"
        default: return "\(error)".split(whereSeparator: \.isNewline).first.map(String.init) ?? "not YAML"
        }
    }
}
