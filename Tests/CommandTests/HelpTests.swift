import ArgumentParser
import CommandSupport
import Foundation
import Testing

@testable import anabranch
@testable import anabranch_lab

/// The help of the two commands.
@Suite struct HelpTests {
    @Test func theHelpIsShortAndForThoseWhoRunAServer() {
        let help = Anabranch.helpMessage(columns: 80)
        #expect(help.split(separator: "\n", omittingEmptySubsequences: false).count <= 50)
        #expect(help.contains("EXAMPLES"))
        #expect(
            Self.commands(in: help)
                == [
                    "serve", "admin", "config", "key", "backup", "restore", "verify", "repair", "merge-files", "store",
                    "export", "import", "realm-file", "inspect", "log", "show", "explain", "blame", "diff",
                    "restore-value", "changeset", "client", "capture", "files", "ota", "bridge",
                ])
    }

    @Test func theLabIsForThoseWhoProveAndMeasure() {
        let help = Lab.helpMessage(columns: 80)
        #expect(help.contains("EXAMPLES"))
        #expect(
            Self.commands(in: help)
                == [
                    "check", "fuzz", "simulate", "drill", "kills", "torture", "soak", "replica", "replay", "merge",
                    "bench", "load", "attack",
                ])
    }

    /// The subcommands that a help text lists.
    private static func commands(in help: String) -> [String] {
        help.split(separator: "\n").compactMap { line in
            line.prefixMatch(of: #/  ([a-z][a-z-]*)  /#).map { String($0.output.1) }
        }
    }

    /// Former names of the lab's commands, each with a command that there is.
    @Test(arguments: Anabranch.moved.sorted { $0.key < $1.key })
    func anOldNameSaysWhereTheCommandWentAndFails(_ oldName: String, _ newName: String) throws {
        var type: any ParsableCommand.Type = Lab.self
        for name in newName.split(separator: " ").dropFirst() {
            type = try #require(type.configuration.subcommands.first { $0.configuration.commandName == String(name) })
        }
        for arguments in [[oldName], [oldName, "--help"], [oldName, "file.jsonl", "--cases", "5"]] {
            let (status, complaint) = try Self.run(arguments)
            #expect(status == 64)
            #expect(complaint == "Error: 'anabranch \(oldName)' is '\(newName)' now.\n")
        }
    }

    @Test func aMistypedCommandIsNamedWithTheOneThatWasMeant() throws {
        let (status, complaint) = try Self.run(["srve", "--dev"])
        #expect(status == 64)
        #expect(
            complaint.hasPrefix("Error: anabranch: there is no command 'srve'; did you mean 'serve'? allowed: serve, "))
        #expect(
            try Self.run(["admin", "sesions"]).complaint.contains("anabranch admin: there is no command 'sesions'"))
        #expect(try Self.run(["admin", "sesions"]).complaint.contains("did you mean 'sessions'?"))
        // In another place there is one of that name.
        #expect(try Self.run(["users", "add"]).complaint.contains("'users'; did you mean 'admin users'? allowed: "))
        #expect(try Self.run(["query"]).complaint.contains("'query'; did you mean 'client query'? allowed: "))
        #expect(!(try Self.run(["frobnicate"]).complaint.contains("did you mean")))
        let lab = try Self.run(["bnech", "merge"], of: "anabranch-lab")
        #expect(lab.status == 64)
        #expect(lab.complaint.hasPrefix("Error: anabranch-lab: there is no command 'bnech'; did you mean 'bench'?"))
        for arguments in [["help", "nosuch"], ["help", "admin", "nosuch"], ["admin", "help", "nosuch"]] {
            let help = try Self.run(arguments)
            #expect(help.status == 64 && help.complaint.contains("there is no command 'nosuch'"))
        }
    }

    @Test(arguments: [
        ("anabranch log --data d --path p --count -1", "--count must be 1 or more."),
        ("anabranch-lab bench merge none.jsonl --repeats -3", "--repeats must be 1 or more."),
        ("anabranch-lab fuzz merge --cases -2", "--cases must be 1 or more."),
        ("anabranch-lab fuzz merge --seed -2", "The value '-2' is invalid for '--seed <seed>'"),
    ])
    func aNegativeNumberIsAValue(_ line: String, _ complaint: String) throws {
        let answer = try BuiltCommands.bash(line)
        #expect(answer.status == 64)
        #expect(answer.complaint.hasPrefix("Error: \(complaint)\n"), "\(answer.complaint)")
    }

    @Test(arguments: [
        (["admin", "help"], ["help", "admin"]), (["admin", "help", "files"], ["help", "admin", "files"]),
        (["admin", "users", "help", "add"], ["help", "admin", "users", "add"]),
        (["help", "admin"], ["help", "admin"]), (["admin", "clients", "help"], ["admin", "clients", "help"]),
    ])
    func helpMayFollowTheGroup(_ arguments: [String], _ meant: [String]) throws {
        #expect(try CommandNames.checked(arguments, in: Anabranch.self) == meant)
    }

    @Test func theVersionIsThatOfTheBuild() throws {
        #expect(
            BuildInfo.text(of: "anabranch").wholeMatch(
                of: /anabranch [0-9]+\.[0-9]+\.[0-9]+(-dev)?, commit ([0-9a-f]{7,}(-dirty)?|unknown)/) != nil)
        #expect(Anabranch.configuration.version == BuildInfo.text(of: "anabranch"))
        #expect(Lab.configuration.version == BuildInfo.text(of: "anabranch-lab"))
    }

    /// Runs the built command, and returns its status and what it says on standard error.
    private static func run(
        _ arguments: [String], of program: String = "anabranch"
    ) throws -> (status: Int32, complaint: String) {
        let words = arguments.map { "'\($0)'" }.joined(separator: " ")
        let answer = try BuiltCommands.bash("\(program) \(words) >/dev/null")
        return (answer.status, answer.complaint)
    }

    // MARK: Examples

    @Test func everyExampleIsACommandLine() throws {
        let lines =
            Self.examples(of: Anabranch.self) + Self.examples(of: Lab.self)
            + (try Pages.all().flatMap { try Self.examples(in: $0) })
        let users = lines.flatMap { Self.commandLines(of: "anabranch", in: $0) }.filter { $0 != ["--version"] }
        let lab = lines.flatMap { Self.commandLines(of: "anabranch-lab", in: $0) }
        #expect(users.count > 40 && lab.count > 20)
        for line in users { #expect(throws: Never.self, "anabranch \(line)") { try Anabranch.parseAsRoot(line) } }
        for line in lab { #expect(throws: Never.self, "anabranch-lab \(line)") { try Lab.parseAsRoot(line) } }
    }

    /// One can be copied where nothing in the environment says where the data are.
    @Test func everyExampleOfAdminSaysWhereTheServerIs() {
        for line in Self.examples(of: AdminCommand.self) {
            #expect(line.contains(" --data ") || line.contains(" --at "), "\(line)")
        }
    }

    /// Help is wrapped at 80 columns where no terminal says otherwise.
    @Test func noLineOfAnExampleIsBroken() {
        for line in Self.exampleLines(of: Anabranch.self) + Self.exampleLines(of: Lab.self) {
            // A line of 80 is broken, too.
            #expect(line.count < 80, "\(line)")
        }
    }

    private static func exampleLines(of command: any ParsableCommand.Type) -> [String] {
        lines(ofExamplesIn: command.configuration.discussion)
            + command.configuration.subcommands.flatMap { exampleLines(of: $0) }
    }

    private static func lines(ofExamplesIn discussion: String) -> [String] {
        discussion.components(separatedBy: "EXAMPLE").dropFirst().joined().split(separator: "\n")
            .filter { $0.hasPrefix("  ") }.map(String.init)
    }

    /// Every command has at least one, unless it is a group of others.
    private static func examples(of command: any ParsableCommand.Type) -> [String] {
        let configuration = command.configuration
        let examples = lines(ofExamplesIn: configuration.discussion.replacing(" \\\n", with: " "))
        #expect(
            !examples.isEmpty || !configuration.subcommands.isEmpty || !configuration.shouldDisplay,
            "\(command) has no example")
        return examples + configuration.subcommands.flatMap { Self.examples(of: $0) }
    }

    /// What stands in a line of text, as `anabranch export FILE --csv`, has options and subcommands that there are.
    @Test func everyCallInALineOfTextHasOptionsThatThereAre() throws {
        var count = 0
        for page in try Pages.all() {
            for span in try Pages.text(of: page).matches(of: /`((?:anabranch|anabranch-lab) [^`\n]+)`/) {
                let line = String(span.output.1)
                for (program, root) in [
                    ("anabranch", Anabranch.self as any ParsableCommand.Type), ("anabranch-lab", Lab.self),
                ] {
                    // Three dots stand for a command.
                    for call in Self.commandLines(of: program, in: line) where !call.contains("…") {
                        count += 1
                        let complaint = Self.complaint(about: call, of: root)
                        let isUnknown = complaint.contains(/Unknown option|there is no command/)
                        #expect(!isUnknown, "\(page): \(line): \(complaint)")
                    }
                }
            }
        }
        #expect(count > 100)
    }

    private static func complaint(about call: [String], of root: any ParsableCommand.Type) -> String {
        do {
            _ = try root.parseAsRoot(try CommandNames.checked(call, in: root))
            return ""
        } catch {
            return "\(error) \(root.message(for: error))"
        }
    }

    /// The lines for a shell of a file of Markdown.
    private static func examples(in file: String) throws -> [String] {
        let parts = try Pages.text(of: file).components(separatedBy: "```")
        return parts.filter { $0.hasPrefix("sh\n") || $0.hasPrefix("console\n") }
            .flatMap { $0.replacing(" \\\n", with: " ").split(separator: "\n") }.map(String.init)
    }

    /// The words that end a call, or say where its output goes.
    private static let ends: Set = ["|", "||", "&&", ">", "2>", "<", "&", ";"]

    /// The arguments of each call of a program in a line for a shell.
    private static func commandLines(of program: String, in line: String) -> [[String]] {
        var words: [String] = []
        for match in line.matches(of: /'[^']*'|"(?:[^"\\]|\\.)*"|#.*|;|[^\s'";]+/) where !match.output.hasPrefix("#") {
            let word = String(match.output)
            words.append(word.first == "'" || word.first == "\"" ? String(word.dropFirst().dropLast()) : word)
        }
        let calls = words.split(whereSeparator: ends.contains)
        return calls.compactMap { call in
            call.firstIndex(of: program).map { Array(call[($0 + 1)...]) }
        }
    }
}
