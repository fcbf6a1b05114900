import CommandSupport

/// Words of which one was expected.
enum Choice {
    /// Names the word that was given, the one that was probably meant, and all that there are.
    static func unknown(_ kind: String, _ word: String, of known: [String]) -> String {
        KnownWords.unknown(kind, word, of: known)
    }
}
