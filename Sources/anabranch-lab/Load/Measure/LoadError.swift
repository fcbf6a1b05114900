import AnabranchProtocol

/// Why a load could not be brought, in words for the person who started it.
struct LoadError: Error, CustomStringConvertible {
    let description: String
    /// What the server has told a client, if that was the reason.
    let told: ErrorMessage?

    init(_ description: String, told: ErrorMessage? = nil) {
        self.description = description
        self.told = told
    }
}
