import AnabranchCore
import AnabranchRealmFile
import ArgumentParser
import CommandSupport

/// `anabranch realm-file pending`: what a synced file has not uploaded.
struct RealmFilePendingCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pending",
        abstract: "Print the changes of a synced Realm file that were never uploaded.",
        discussion: """
            For each change: the version of the file that it made, when it was made, the version of the server that \
            it was made upon, and its instructions in the words of `anabranch changeset print`. If changes of others \
            were downloaded later, what has become of it since is printed, too. The objects that \
            `anabranch realm-file export` prints have all of these changes in them.

            EXAMPLES
              anabranch realm-file pending notes.realm
              anabranch realm-file pending notes.realm --json | jq .date
            """)

    @OptionGroup var options: RealmFileOptions

    @Option(
        help: ArgumentHelp(
            "How many bytes the changes may have; 64 times the file and 16 MiB more by default.", valueName: "bytes"))
    var outputLimit: Int?

    @Flag(help: "Print a JSON object for each change.")
    var json = false

    func validate() throws {
        if let outputLimit, outputLimit < 1 { throw ValidationError("--output-limit must be 1 or more.") }
    }

    func run() throws { try run { print($0) } }

    /// - Parameter output: takes a line.
    func run(output: (String) -> Void) throws {
        let state = try options.read { file in
            guard let state = try file.syncState(salvages: options.salvage, outputLimit: outputLimit) else {
                throw InputError(description: "\(options.file): \(file.reasonForNoUploads)")
            }
            return state
        }
        for change in state.pending { printed(change).forEach(output) }
        options.tell([], count: 0, notSeen: state.notSeen)
        let changes = counted(state.pending.count, "change")
        let since = state.pending.first.map { ", the oldest of \($0.time.date)" } ?? ""
        StandardError.write("\(options.file): \(changes) never uploaded\(since)\n")
        let unreadable = state.pending.count { !Self.isReadable($0) }
        guard unreadable == 0 else {
            StandardError.write("\(options.file): \(unreadable) of them cannot be read\n")
            throw ExitCode.failure
        }
    }

    private func printed(_ change: RealmFileSyncState.PendingChangeset) -> [String] {
        if json {
            var members = change.json.members ?? [:]
            members[JSONName("date")] = .string(change.time.date)
            let text = JSONValue.object(members).encoded
            guard case .changeset(let bytes, _) = change.content, let (arena, index) = try? Self.decoded(bytes) else {
                return [text]
            }
            // A changeset is JSON already, but with line ends, which this line must not have.
            let instructions = arena.json(of: index).replacing("\n", with: "")
            return [text.dropLast() + ",\"decoded\":\(instructions)}"]
        }
        let head = "version \(change.version)  \(change.time.date)  upon server version \(change.serverVersion)"
        switch change.content {
        case .unreadable(let error): return [head, "  cannot be read: \(error)"]
        case .changeset(let bytes, let rebased):
            var lines = [head] + Self.words(bytes)
            if let rebased {
                lines.append("  since then, merged with what was downloaded:")
                lines += rebased.isEmpty ? ["  nothing is left of it"] : Self.words(rebased)
            }
            return lines
        }
    }

    private static func isReadable(_ change: RealmFileSyncState.PendingChangeset) -> Bool {
        guard case .changeset(let bytes, let rebased) = change.content else { return false }
        return [bytes, rebased ?? []].allSatisfy { (try? decoded($0)) != nil }
    }

    private static func decoded(_ bytes: [UInt8]) throws -> (ChangesetArena, ChangesetIndex) {
        var arena = ChangesetArena()
        let index = try arena.decode(bytes, version: 0, tag: OriginTag(timestamp: 0, ident: 0))
        return (arena, index)
    }

    private static func words(_ bytes: [UInt8]) -> [String] {
        do {
            let (arena, index) = try decoded(bytes)
            return arena.instructions(of: index).map { "  " + arena.text(of: $0) }
        } catch {
            return ["  cannot be decoded: \(error)"]
        }
    }
}
