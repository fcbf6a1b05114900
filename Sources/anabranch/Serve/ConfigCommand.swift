import ArgumentParser
import Foundation

/// `anabranch config`: the configuration that flags, environment and file amount to, and what is wrong with it.
struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "Print or check the configuration.",
        subcommands: [Print.self, Check.self, ImportBarqRules.self])

    struct Print: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print the effective configuration, as a file that would have the same effect.",
            discussion: """
                Every setting is there, with a line on what it means and which values it can have.

                EXAMPLES
                  anabranch config print --config anabranch.yaml
                  ANABRANCH_LISTEN='[::1]:9090' anabranch config print
                """)

        @OptionGroup var options: ConfigurationOptions

        func run() throws { print(try options.configuration().yaml, terminator: "") }
    }

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Say what is wrong with the configuration.",
            discussion: """
                Finds every mistake at once: settings and values that do not exist, settings that contradict each \
                other, files of rules, certificates, keys, passwords, programs and folders of exported apps that \
                are missing or cannot be used, and rules or folders that are not set, without which no server starts. \
                Nothing is changed, and a server may be running. Prints a line for each mistake on standard error, and \
                on standard output each rule in words, what exported apps ask for that has no effect here, and which \
                issuers do not hand out their keys now; the exit status is 0 if there is no mistake, and 1 if there \
                is one.

                EXAMPLES
                  anabranch config check --config anabranch.yaml && systemctl restart anabranch
                """)

        @OptionGroup var options: ConfigurationOptions

        func run() async throws {
            let sources = options.sources()
            var problems = sources.problems + sources.configuration.contradictions
            // What could not be read is not missing.
            if sources.problems.isEmpty { problems += sources.configuration.missingPermissions }
            let files = await NamedFiles.check(sources.configuration)
            problems += files.problems
            for rule in files.rules { print(rule) }
            let notices = sources.problems.isEmpty ? sources.configuration.notices : []
            for notice in sources.overridden + sources.misspelt + notices + files.notices { print("note: \(notice)") }
            if options.server.config == nil { print("note: no file was looked at: --config names one") }
            guard problems.isEmpty else { throw InputError(description: problems.joined(separator: "\n")) }
            print("the configuration is good")
        }
    }
}
