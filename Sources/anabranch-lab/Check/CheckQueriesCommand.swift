import AnabranchTesting
import ArgumentParser

struct CheckQueriesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queries",
        abstract: "Check the query engine against recorded answers of the reference.",
        discussion: """
            Each line of a file is a schema with objects, and queries about them. Of each query the matching objects, \
            the canonical text (members of lists after IN as sets) and what that text matches are compared with what \
            was recorded, or the kind of the error. The first differences are printed with the query, what was \
            expected and what came; --all prints every one. The exit status is 1 if something differs, if a file \
            cannot be read, or if nothing ran.

            EXAMPLE
              anabranch-lab check queries Tests/Vectors/Queries/queries.jsonl.zst
            """)

    @Argument(help: "Files, .jsonl or .jsonl.zst.")
    var files: [String]

    @Flag(help: "Print every difference.")
    var all = false

    private static let printedCount = 10

    func run() throws {
        var (passed, failed, unreadable) = (0, 0, 0)
        for file in files {
            do {
                try QueryVector.forEach(in: file) { number, vector in
                    for query in vector.cases {
                        guard let problem = try vector.problem(of: query) else {
                            passed += 1
                            continue
                        }
                        failed += 1
                        guard all || failed <= Self.printedCount else { continue }
                        print("\(file):\(number): \(query.query)\n\(problem)\n")
                    }
                }
            } catch {
                RunProgress.say("\(error)")
                unreadable += 1
            }
        }
        print("queries: \(passed) passed, \(failed) failed")
        if failed > 0 || unreadable > 0 || passed == 0 { throw ExitCode.failure }
    }
}
