/// The reason why a line of an import is refused (`Spec/Export.md`, section 3).
package struct LineError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The field that it is about; nil if it is about the whole line.
    package var field: String?
    package var reason: String

    package init(field: String? = nil, _ reason: String) { (self.field, self.reason) = (field, reason) }

    package init(_ error: ApplyError) {
        self.init(field: error.field.map { String(excerptOf: $0) }, error.reason)
    }

    package var description: String { field.map { "field \($0): \(reason)" } ?? reason }
}
