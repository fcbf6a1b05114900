import AnabranchCore
import AnabranchRules
import AnabranchServer
import ArgumentParser
import Foundation
import Yams

/// `anabranch config import-barq-rules`: makes the folder of an app from the rules of a Barq server.
struct ImportBarqRules: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import-barq-rules", abstract: "Write the rules of a Barq server as the roles of an app.",
        discussion: """
            Reads a list of rules in JSON or YAML, or an object with a list of them as "rules". A rule has the name \
            of a class (class, class_name or table), and who may read and who may write its objects: read and write, \
            in the query language, as owner_id == $user.id. $user.id is the user as the app's own issuer of tokens \
            names it.

            Writes a folder for the app's setting app-config (Spec/FlexibleRules.md, section 9): each class gets a \
            role for admins, which applies where %%user.data.admin is true, and one with the rule. Classes without a \
            rule have no role: nobody may do anything with them.

            Prints the files that it writes, and keys that have no effect here. Mistakes are printed on standard \
            error, with the number of its rule; then nothing is written, and the exit status is 1.

            EXAMPLES
              anabranch config import-barq-rules rules.json
              anabranch config import-barq-rules rules.yaml --output shop
              anabranch config import-barq-rules - --output shop --overwrite
            """)

    @Argument(help: "The rules; - is the standard input.")
    var file: String
    @Option(help: ArgumentHelp("The folder to write.", valueName: "dir"))
    var output = "app-config"
    @Flag(help: "Replace the files of a folder that holds some.")
    var overwrite = false

    func run() throws {
        let rules: BarqRules
        do { rules = try BarqRules(Self.value(ofFile: file)) } catch let mistakes as BarqRules.Mistakes {
            throw InputError(description: mistakes.lines.map { "\(file): \($0)" }.joined(separator: "\n"))
        }
        try checkOutput(rules.files)
        for notice in rules.notices { print("note: \(notice)") }
        for file in rules.files { try write(file) }
        print("the setting of the app is app-config: \(output)")
    }

    // MARK: Reading

    /// The value of a file in YAML. JSON is a part of YAML, except for some letters that JSON writes as two numbers.
    private static func value(ofFile path: String) throws -> JSONValue {
        let text = try TextInput.text(ofFile: path == "-" ? "/dev/stdin" : path)
        if let json = try? JSONValue(parsing: text.utf8) { return json }
        do { return try Yams.compose(yaml: text).map(JSONValue.init) ?? .null } catch {
            throw InputError(description: "\(path): \(YAMLMistake.line(error))")
        }
    }

    // MARK: Writing

    /// Refuses a folder with other roles in it: those left there would go on granting rights.
    private func checkOutput(_ files: [AppFile]) throws {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: output, isDirectory: &isFolder) else { return }
        guard isFolder.boolValue else { throw InputError(description: "\(output): is not a folder") }
        let found = try AppExport.paths(inDirectory: output)
        guard overwrite || found.isEmpty else {
            throw InputError(description: "\(output): has files already; --overwrite replaces them")
        }
        let left = found.filter { path in
            let name = path.split(separator: "/").last ?? ""
            let hasRoles = ["rules.json", "default_rule.json", "sync.json"].contains(name) || path.contains("/rules/")
            return hasRoles && !files.contains { $0.path.hasBytes(of: path) }
        }
        guard left.isEmpty else {
            let reason = "would go on giving rights: remove it, or write to another folder"
            throw InputError(description: left.map { "\(output)/\($0): \(reason)" }.joined(separator: "\n"))
        }
    }

    private func write(_ file: AppFile) throws {
        let url = URL(fileURLWithPath: output).appending(path: file.path)
        do {
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data((String(indenting: file.bytes) + "\n").utf8).write(to: url, options: .atomic)
        } catch {
            throw InputError(description: "\(output)/\(file.path): cannot be written: \(error.localizedDescription)")
        }
        print("\(output)/\(file.path)")
    }
}

extension JSONValue {
    /// A YAML value, with the few kinds of scalars that rules can have.
    fileprivate init(_ node: Node) {
        switch node {
        case .mapping(let mapping):
            self = .object(
                Dictionary(mapping.map { (JSONName($0.key.scalar?.string ?? ""), JSONValue($0.value)) }) { $1 })
        case .sequence(let sequence): self = .array(sequence.map(JSONValue.init))
        case .scalar(let scalar) where scalar.style == .plain: self = Self.plain(scalar.string)
        case .scalar(let scalar): self = .string(scalar.string)
        case .alias: self = .null
        }
    }

    private static func plain(_ text: String) -> JSONValue {
        switch text {
        case "true", "false": .bool(text == "true")
        case "null", "~", "": .null
        default: .string(text)
        }
    }
}
