/// The reason why a line of an import is refused (`Spec/Export.md`, section 3).
package struct LineError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The field that it is about; nil if it is about the whole line.
    package var field: String?
    package var reason: String

    package init(field: String? = nil, _ reason: String) { (self.field, self.reason) = (field, reason) }

    /// The error for JSON that is no primary key, with the form that one has.
    package init(noKey json: JSONValue) {
        self.init(#"\#(json.excerpt) is no primary key: it says its type, as {"int":"1"} does; a text stands alone"#)
    }

    /// The error for JSON that is no value, with the form that one has.
    init(noValue json: JSONValue) {
        self.init(
            #"\#(json.excerpt) is no value: a number says its type, as {"int":"7"} does, and so do all but texts, "#
                + "true, false and null")
    }

    package init(_ error: ApplyError) {
        self.init(field: error.field.map { String(excerptOf: $0) }, error.reason)
    }

    package var description: String { field.map { "field \($0): \(reason)" } ?? reason }
}
