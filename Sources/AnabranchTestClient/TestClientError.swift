public import AnabranchProtocol

/// The reason why a test client cannot go on: the connection is lost, or the server has refused something.
public struct TestClientError: Error, CustomStringConvertible {
    /// The reason in words, with those of the server.
    public let description: String
    /// The error that the server sent, if that was the reason.
    package let told: ErrorMessage?

    /// The code of the error that the server sent; nil if it sent none.
    public var code: ErrorCode? { told?.code }

    package init(_ description: String, told: ErrorMessage? = nil) {
        self.description = description
        self.told = told
    }
}

/// The server has sent something for which a real client closes its session without telling its user
/// (`Spec/Protocol.md`, section 5.2).
public struct ServerViolation: Error, CustomStringConvertible {
    /// The violation in words.
    public let description: String
}
