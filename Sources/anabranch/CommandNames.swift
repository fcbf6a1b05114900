import ArgumentParser

/// The names of commands at the beginning of the arguments.
enum CommandNames {
    /// There is no such command.
    struct Mistake: Error, CustomStringConvertible {
        let description: String
    }

    /// Commands of `anabranch-lab` by their former names in `anabranch`. For one release these say so.
    static let moved = [
        "vectors": "check vectors", "diff-merge": "fuzz merge", "converge": "fuzz convergence",
        "trace": "replay trace", "merge": "merge", "cases": "bench cases", "bench": "bench merge",
        "bench-server": "bench server", "bench-apply": "bench apply",
    ]

    /// The arguments, with `help` in front: `admin help files` is `help admin files`.
    /// - Throws: `Mistake` if a group of commands has none of the name that follows.
    static func checked(_ arguments: [String], in root: any ParsableCommand.Type) throws(Mistake) -> [String] {
        if let first = arguments.first, let newName = moved[first] {
            throw Mistake(description: "'anabranch \(first)' is 'anabranch-lab \(newName)' now.")
        }
        var command = root, names: [String] = []
        for word in arguments {
            let subcommands = commands(of: command)
            guard !subcommands.isEmpty, !word.hasPrefix("-") else { break }
            if word == "help" { return names.isEmpty ? arguments : ["help"] + names + arguments[(names.count + 1)...] }
            guard let found = subcommands.first(where: { $0._commandName == word }) else {
                // A command that is a group as well takes arguments of its own.
                if command.configuration.defaultSubcommand != nil { break }
                let group = ([root._commandName] + names).joined(separator: " ")
                let known = subcommands.map { $0._commandName }
                throw Mistake(description: "\(group): \(Choice.unknown("command", word, of: known))")
            }
            command = found
            names.append(word)
        }
        return arguments
    }

    private static func commands(of command: any ParsableCommand.Type) -> [any ParsableCommand.Type] {
        let configuration = command.configuration
        return configuration.ungroupedSubcommands + configuration.groupedSubcommands.flatMap(\.subcommands)
    }
}
