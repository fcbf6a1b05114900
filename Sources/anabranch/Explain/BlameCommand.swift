import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser

/// `anabranch blame`: who wrote each value of an object.
struct BlameCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "blame",
        abstract: "Print who wrote each value of an object, and when.",
        discussion: """
            A line for each property, element of a list, entry of a dictionary and member of a set: its place, its \
            value, and the version that wrote it, or created what it stands in. Only versions that changed the object \
            are read. `anabranch log --object` prints its history, `anabranch explain` what a version lost. Nothing is \
            changed, and a running server keeps serving.

            EXAMPLES
              anabranch blame Note/7 --data ./data --path '/"notes"'
              anabranch blame Note/7 --data ./data --path '/"notes"' --json | jq .values
            """)

    @Argument(help: ArgumentHelp("The object.", valueName: "class/key"))
    var object: String

    @OptionGroup var store: StoreOption

    @Option(help: "A synced file, as `anabranch inspect` lists it.")
    var path: String

    @Flag(help: "Print a JSON object (Spec/Explain.md, section 3).")
    var json = false

    func run() throws { try run { print($0) } }

    /// - Parameter output: takes a line.
    func run(output: (String) -> Void) throws {
        try StoreOption.explainingErrors {
            let file = try store.file(path), state = try file.state(at: file.head.version)
            let address = try ObjectAddress(argument: object, in: state.exportedClasses)
            let (found, versions) = try file.withView { view throws(HistoryError) in
                let blame = try view.blame(address, in: state)
                return (blame, blame == nil ? try view.versions(changing: address) : [])
            }
            guard let blame = found else {
                let last =
                    versions.last.map { ": version \($0) was the last to change it" } ?? ", and the log knows none"
                throw InputError(description: "there is no object \(object)\(last)")
            }
            if json { return output(blame.json) }
            let before = "version \(blame.beginning) or earlier"
            output("created by version \(blame.creation?.text ?? before)")
            output("")
            for line in blame.lines {
                output("\(line.place) = \(String(decoding: line.value, as: UTF8.self))")
                output("    version \(line.author?.text ?? "\(blame.beginning) or earlier")")
            }
        }
    }
}
