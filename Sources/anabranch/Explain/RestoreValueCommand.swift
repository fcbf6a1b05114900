import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser
import CommandSupport
import Foundation
import NIOCore

/// `anabranch restore-value`: has a running server write a value again that a merge has discarded.
struct RestoreValueCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore-value",
        abstract: "Write a value again that was lost in a merge.",
        discussion: """
            Looks for the values of properties that were lost when the version was merged, those of the version itself \
            and those that it overruled, as `anabranch explain` prints them. Each is written by the server as a change \
            of its own, which every client downloads; of several on one property, the one that was written last. What \
            is there by now is overwritten. Refused is what cannot be: an object that is gone, a property that has \
            another type now, an element of a list.

            The server has to run: it is found as `anabranch admin` finds it. With --dry-run it need not.

            EXAMPLES
              anabranch restore-value 41 --data ./data --path 'app/"notes"' --dry-run
              anabranch restore-value 41 --data ./data --path 'app/"notes"' \\
                  --object Note/7 --field title
            """)

    @Argument(help: "A version, as `anabranch log` prints it.")
    var version: UInt64

    @OptionGroup var options: AdminOptions

    @Option(help: "A synced file, as `anabranch inspect` lists it.")
    var path: String

    @Option(help: ArgumentHelp("Only values of this object.", valueName: "class/key"))
    var object: String?

    @Option(help: "Only the value of this property of the object.")
    var field: String?

    @Flag(help: "Only print what would be written.")
    var dryRun = false

    func validate() throws {
        guard field == nil || object != nil else { throw ValidationError("--field is about an object: give --object.") }
    }

    func run() async throws {
        let (values, path) = try values()
        for value in values { print(value.text) }
        guard !dryRun else { return }
        try await options.run { client in
            for value in values {
                let answer = try JSONDecoder().decode(
                    Answer.self,
                    from: try await client.post(
                        "/v1/import", [("path", path), ("strict", "true")], lines: Data(value.line),
                        timeout: .minutes(1)))
                if let refusal = answer.refused.first {
                    throw InputError(description: "\(value.place) was not written: \(refusal.reason)")
                }
                print("\(value.place): \(answer.written > 0 ? "written" : "has this value already")")
            }
        }
    }

    private struct Answer: Decodable {
        struct Refusal: Decodable { var reason: String }
        var written: Int, refused: [Refusal]
    }

    /// The values to write, and the path of their file.
    ///
    /// - Throws: `InputError` if there are none, or their objects are gone.
    func values() throws -> (values: [LostValue], path: String) {
        var found: [LostValue] = [], path = ""
        try StoreOption.explainingErrors {
            let file = try options.store.file(self.path), state = try file.state(at: file.head.version)
            path = file.path.description
            let only = try object.map { try ObjectAddress(argument: $0, in: state.exportedClasses) }
            let explanation = try file.withView { view throws(HistoryError) in
                try view.explanation(of: ServerVersion(rawValue: version))
            }
            for value in explanation.lostValues where only == nil || value.object == only {
                guard field == nil || field.map({ Array($0.utf8) }) == value.field else { continue }
                found.removeAll { $0.object == value.object && $0.field == value.field }
                found.append(value)
            }
            guard !found.isEmpty else {
                throw InputError(description: "no value of a property was lost in version \(version): see `explain`")
            }
            for value in found {
                // Also what the server itself would refuse, so that a dry run tells.
                var state = state
                do { _ = try state.write(as: .server) { try $0.restore(value) } } catch {
                    throw InputError(description: "\(value.place) cannot be written again: \(error)")
                }
            }
        }
        return (found, path)
    }
}

extension LostValue {
    /// `Note/{"int":"7"}.title`.
    fileprivate var place: String {
        var key: [UInt8] = []
        JSONText.append(object.key, .exact, to: &key)
        let (className, field) = (
            String(decoding: object.className, as: UTF8.self), String(decoding: field, as: UTF8.self)
        )
        return "\(className)/\(String(decoding: key, as: UTF8.self)).\(field)"
    }

    fileprivate var text: String {
        var json: [UInt8] = []
        JSONText.append(value, .exact, to: &json)
        return """
            \(place) = \(String(decoding: json, as: UTF8.self))
                written by version \(author.text)
                lost by \(rule.rawValue) to version \(winner.text)
            """
    }

    /// The line of an import that writes it (`Spec/Export.md`, section 1).
    fileprivate var line: [UInt8] {
        var line: [UInt8] = [UInt8(ascii: "[")]
        JSONText.append(text: object.className, .exact, to: &line)
        line.append(UInt8(ascii: ","))
        JSONText.append(object.key, .exact, to: &line)
        line += ",{".utf8
        JSONText.append(text: field, .exact, to: &line)
        line.append(UInt8(ascii: ":"))
        JSONText.append(value, .exact, to: &line)
        line += "}]\n".utf8
        return line
    }
}
