import AnabranchCore
import ArgumentParser
import Foundation

struct ChangesetCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "changeset",
        abstract: "Print changesets.",
        subcommands: [PrintChangesetCommand.self])
}

struct PrintChangesetCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "print",
        abstract: "Print a changeset: a line an instruction, or JSON.",
        discussion: """
            The file holds a changeset as bytes or as hexadecimal digits; the command sees which. A line is an \
            instruction: ArrayInsert Person[7].scores[2] = Int 5 (prior size 3). Text that is not \
            UTF-8 is printed as x"hexadecimal", in JSON as {"bytes":"hexadecimal"}. If the bytes are not a changeset, \
            the error names the byte and the rule of Spec/Changeset.md, section 11, and the exit status is 1.

            EXAMPLES
              anabranch changeset print upload.bin
              anabranch changeset print --json upload.bin
              echo '3f0001413f01016905000101010042' | anabranch changeset print -
            """)

    @Argument(help: "A file with one changeset; - is the standard input.")
    var file: String

    @Flag(help: "Print JSON: {\"strings\":[…],\"instructions\":[…]}, an object an instruction.")
    var json = false

    func run() throws {
        var arena = ChangesetArena()
        let changeset: ChangesetIndex
        do {
            changeset = try arena.decode(
                try bytes(in: content()), version: 0, tag: OriginTag(timestamp: 0, ident: 0))
        } catch let error as ChangesetError {
            throw InputError(description: "\(file): \(error)")
        }
        print(json ? arena.json(of: changeset) + "\n" : arena.text(of: changeset), terminator: "")
    }

    private func content() throws -> Data {
        if file == "-" { return try FileHandle.standardInput.readToEnd() ?? Data() }
        guard let content = FileManager.default.contents(atPath: file) else {
            throw InputError(description: "\(file): cannot be read")
        }
        return content
    }

    /// The bytes of hexadecimal text, or the bytes as they are. The two cannot be confused: every instruction names a
    /// string that is defined before it, so a changeset that is not empty starts with the byte 3f, which is neither a
    /// digit nor white space.
    private func bytes(in content: Data) throws -> [UInt8] {
        let visible = content.filter { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        let digits = String(decoding: visible, as: UTF8.self)
        if let bytes = Hex.decode(digits) { return bytes }
        guard Hex.decode(digits + "0") == nil else {
            throw InputError(description: "\(file): an odd number of hexadecimal digits")
        }
        return [UInt8](content)
    }
}
