/// The reason why a line of an import is refused (`Spec/Export.md`, section 3).
package struct LineError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The field that it is about; nil if it is about the whole line.
    package var field: String?
    package var reason: String

    package init(field: String? = nil, _ reason: String) { (self.field, self.reason) = (field, reason) }

    /// The error for JSON that is not a primary key, with the form that one has.
    package init(noKey json: JSONValue) {
        self.init(#"\#(json.excerpt) is not a primary key: write its type, as in {"int":"1"}; a string stands alone"#)
    }

    /// The error for JSON that is not a value, with the form that one has.
    init(noValue json: JSONValue) {
        self.init(
            #"\#(json.excerpt) is not a value: write its type, as in {"int":"7"}, except for strings, true, "#
                + "false and null")
    }

    package init(_ error: ApplyError) {
        self.init(field: error.field.map { String(excerptOf: $0) }, error.reason)
    }

    package var description: String { field.map { "field \($0): \(reason)" } ?? reason }
}
