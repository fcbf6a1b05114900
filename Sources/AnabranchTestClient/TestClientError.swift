public import AnabranchProtocol

/// Why a test client cannot go on: there is no connection any more, or the server has refused something.
public struct TestClientError: Error, CustomStringConvertible {
    /// In words, with those of the server.
    public let description: String
    /// What the server has told the client, if that was the reason.
    package let told: ErrorMessage?

    /// Which error the server has told the client; nil if it has told none.
    public var code: ErrorCode? { told?.code }

    package init(_ description: String, told: ErrorMessage? = nil) {
        self.description = description
        self.told = told
    }
}

/// The server has sent what a real client closes its session for, without a word to its user
/// (`Spec/Protocol.md`, section 5.2).
public struct ServerViolation: Error, CustomStringConvertible {
    /// What is wrong with it.
    public let description: String
}
