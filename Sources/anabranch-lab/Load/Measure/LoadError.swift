/// The reason why a load could not be brought, in words for the person who started it.
struct LoadError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
