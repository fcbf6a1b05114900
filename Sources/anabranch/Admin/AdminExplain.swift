import ArgumentParser

struct AdminExplain: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain", abstract: "What the merge made of a version of a synced file, and why, as JSON.",
        discussion: """
            The JSON object of Spec/Explain.md, section 2.3: what was uploaded, what of it entered the log, and each \
            rule that had an effect, with both instructions and who made the other one. Where the data directory is at \
            hand, `anabranch explain` prints the same in words.

            EXAMPLES
              anabranch admin explain 'my-app/"notes"' 41 --data ./data | jq .effects
            """)

    @OptionGroup var options: AdminOptions
    @Argument(help: "The synced file, as `admin files` shows it.")
    var file: String
    @Argument(help: "A version, as `admin history` shows it.")
    var version: UInt64

    func run() async throws {
        try await options.run { server in
            show(try await server.get("/v1/explain", [("path", file), ("version", "\(version)")]))
        }
    }
}
