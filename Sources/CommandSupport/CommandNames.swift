package import ArgumentParser

/// The names of commands at the beginning of the arguments.
package enum CommandNames {
    /// The error for a command that does not exist.
    package struct Mistake: Error, CustomStringConvertible {
        package let description: String
    }

    /// The arguments, with `help` in front: `admin help files` is `help admin files`.
    /// - Throws: `Mistake` if a group of commands has none of the name that follows.
    package static func checked(
        _ arguments: [String], in root: any ParsableCommand.Type
    ) throws(Mistake) -> [String] {
        var command = root, names: [String] = []
        for word in arguments {
            let subcommands = commands(of: command)
            guard !subcommands.isEmpty, !word.hasPrefix("-") else { break }
            if word == "help" {
                return try ["help"] + checked(names + arguments[(names.count + 1)...], in: root)
            }
            guard let found = subcommands.first(where: { $0._commandName == word }) else {
                // A command that is a group as well takes arguments of its own.
                if command.configuration.defaultSubcommand != nil { break }
                let group = ([root._commandName] + names).joined(separator: " ")
                let known = subcommands.map { $0._commandName }
                let elsewhere = calls(of: word, in: command)
                throw Mistake(
                    description: "\(group): \(KnownWords.unknown("command", word, of: known, elsewhere: elsewhere))")
            }
            command = found
            names.append(word)
        }
        return arguments
    }

    /// The arguments, with a negative number as part of the option before it: the parser would take it for an option
    /// of its own, and say that a value is missing.
    package static func joiningNegativeNumbers(_ arguments: [String]) -> [String] {
        arguments.reduce(into: []) { joined, word in
            if let option = joined.last, option.hasPrefix("--"), !option.contains("="), option != "--",
                word.hasPrefix("-"), Double(word) != nil
            {
                joined[joined.count - 1] = "\(option)=\(word)"
            } else {
                joined.append(word)
            }
        }
    }

    /// The calls of all commands of a name below a group, as `admin users` for `users`.
    private static func calls(of name: String, in group: any ParsableCommand.Type) -> [String] {
        commands(of: group).filter { $0.configuration.shouldDisplay }.flatMap { command in
            (command._commandName == name ? [name] : [])
                + calls(of: name, in: command).map { "\(command._commandName) \($0)" }
        }
    }

    private static func commands(of command: any ParsableCommand.Type) -> [any ParsableCommand.Type] {
        let configuration = command.configuration
        return configuration.ungroupedSubcommands + configuration.groupedSubcommands.flatMap(\.subcommands)
    }
}
