import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser
import CommandSupport

/// The options with which a command prints other names, keys and values (`Spec/Explain.md`, section 9).
struct AnonymityOptions: ParsableArguments {
    @Flag(help: "Print other names, keys, values and users of the same lengths in the same order, to show to others.")
    var anonymize = false

    @Option(help: "With --anonymize: a number; the same one gives the same names. (default: a new one each time)")
    var seed: UInt64?

    func validate() throws {
        if seed != nil, !anonymize { throw ValidationError("--seed needs --anonymize.") }
    }

    /// Reads all that is kept of a file, and prints on standard error the seed that gives the same names again.
    /// - Returns: nil if true names are to be printed.
    func anonymizer(of file: StoredFile) throws -> Anonymizer? {
        guard anonymize else { return nil }
        let seed = seed ?? .random(in: 0...UInt64(Int64.max)), state = try file.state(at: file.head.version)
        let anonymizer = try file.withView { view throws(HistoryError) in
            try Anonymizer(of: view, state, seed: seed)
        }
        StandardError.write("anonymized: --seed \(seed) gives the same names, as long as nothing is written\n")
        return anonymizer
    }
}
