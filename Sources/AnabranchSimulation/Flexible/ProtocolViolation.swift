/// Something that a server must not do: it would make a real client end its process, reset its file, close the
/// connection, or wait forever.
package struct ProtocolViolation: Error, Equatable, CustomStringConvertible {
    /// The rule that is broken: a row of the table in `Spec/FlexibleSync.md`, section 2.11, such as `3a`; or a section
    /// of the chapter Protocol and the number of a rule there, such as `Protocol 5.2.6`.
    package let row: String
    /// A description of what the server did.
    package let reason: String

    init(_ row: String, _ reason: String) {
        self.row = row
        self.reason = reason
    }

    package var description: String { "\(reason) (\(row))" }
}
