/// Something that a server must not do: a real client would end its process, reset its file, close the connection, or
/// wait for ever.
package struct ServerMistake: Error, Equatable, CustomStringConvertible {
    /// A row of the table in `Spec/FlexibleSync.md`, section 2.11, such as `3a`; or a section of the chapter Protocol
    /// and what stands there, such as `Protocol 5.2.6`.
    package let row: String
    /// What the server did.
    package let reason: String

    init(_ row: String, _ reason: String) {
        self.row = row
        self.reason = reason
    }

    package var description: String { "\(reason) (\(row))" }
}
