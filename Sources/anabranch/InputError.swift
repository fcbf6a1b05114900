/// What is wrong with a file or a directory, in words for the person who named it.
struct InputError: Error, CustomStringConvertible {
    let description: String
}
