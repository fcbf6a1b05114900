import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser
import Foundation
import Testing

@testable import anabranch

/// `--anonymize`: nothing that a company has written leaves it.
@Suite struct AnonymizeTests {
    /// The words that must not be seen: a class, fields, keys, values, users and a partition.
    private static let planted = [
        "Patient", "Zü9", "Diagnosis", "bEd", "Influenza-B", "Anna K", "Q7X", "4711081512", "987654.25", "Ward-Ü",
        "A1-x", "5e5e5e5e", "0badf00d", "nurse@clinic.example", "doctor@clinic.example", "clinic-west", "1764288000",
    ]

    private final class Fixture {
        let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        let path = "/\"clinic-west\""

        init() throws {
            let store = try SQLiteStore(directory: directory)
            let file = try SyncedFile(path: VirtualPath(path), store: store)
            let idents = try file.allocateIdents(for: ["nurse@clinic.example", "doctor@clinic.example"], at: 1)
            var graph = ObjectGraph()
            let first = try graph.write(as: idents[0].ident) { tx in
                try tx.addClass("Patient", key: "_id", .string)
                try tx.addClass("Zü9", key: "bEd", .objectID)
                try tx.addColumn("Diagnosis", .string, to: "Patient")
                try tx.addColumn("Ward-Ü", .null, collection: .dictionary, to: "Patient")
                try tx.addLink("Zü9", to: "Zü9", of: "Patient")
                let bed = PrimaryKey.objectID(try #require(ObjectID([UInt8](repeating: 0x5E, count: 12))))
                _ = try tx.create("Zü9", key: bed)
                let patient = try tx.create("Patient", key: "Q7X")
                patient["Diagnosis"] = "Influenza-B"
                try patient.set("Zü9", to: .link(className: Array("Zü9".utf8), key: bed))
            }.changeset
            try upload(first, 2, on: 0, at: 1000, as: idents[0].ident, to: file)
            for (number, (ident, name)) in zip(idents, ["Anna K", "Influenza-B"]).enumerated() {
                var copy = graph
                let change = try copy.write(as: ident.ident) { tx in
                    let patient = try tx.create("Patient", key: "Q7X")
                    patient["Diagnosis"] = .string(Array(name.utf8))
                    let ward = try patient.dictionary("Ward-Ü")
                    try ward.set(.int(4_711_081_512), for: "Anna K")
                    try ward.set(.double(987_654.25), for: "Zü9")
                    try ward.set(.binary([0x0B, 0xAD, 0xF0, 0x0D]), for: "bEd")
                    try ward.set(.timestamp(Timestamp(seconds: 1_764_288_000, nanoseconds: 0)), for: "A1-x")
                }.changeset
                try upload(
                    change, ClientVersion(rawValue: UInt64(number == 0 ? 3 : 2)), on: 1,
                    at: ChangesetTime(UInt64(9000 - number)), as: ident.ident, to: file)
            }
            try store.close()
        }

        deinit { try? FileManager.default.removeItem(atPath: directory) }

        private func upload(
            _ changeset: [UInt8], _ version: ClientVersion, on base: ServerVersion, at time: ChangesetTime,
            as ident: ClientFileID, to file: SyncedFile
        ) throws {
            let cursor = UploadCursor(clientVersion: version, serverVersion: base)
            let upload = Upload(
                progress: cursor,
                changesets: [UploadedChangeset(cursor: cursor, timestamp: time, changeset: changeset)])
            try file.enqueue(upload, from: ident)
            #expect(try file.integrate(at: 1).outcomes.allSatisfy { $0.refusal == nil })
        }

        func run<Command: ParsableCommand>(
            _ type: Command.Type, _ arguments: [String], _ body: (Command, (String) -> Void) throws -> Void
        ) throws -> [String] {
            var lines: [String] = []
            let command = try Command.parse(["--data", directory, "--path", path] + arguments)
            try body(command) { lines.append($0) }
            return lines
        }

        /// The output of all commands that can leave out what was written.
        func outputs(_ options: [String]) throws -> [[String]] {
            var outputs: [[String]] = []
            for form in [[], ["--json"]] as [[String]] {
                let options = options + form
                outputs.append(try run(LogCommand.self, options) { try $0.run(output: $1) })
                outputs.append(try run(LogCommand.self, ["--edits"] + options) { try $0.run(output: $1) })
                outputs.append(
                    try run(LogCommand.self, ["--object", "Patient/Q7X"] + options) { try $0.run(output: $1) })
                for version in ["1", "2", "3"] {
                    outputs.append(try run(ShowCommand.self, [version] + options) { try $0.run(output: $1) })
                    outputs.append(try run(ExplainCommand.self, [version] + options) { try $0.run(output: $1) })
                }
                outputs.append(
                    try run(ExplainCommand.self, ["3", "--object", "Patient/Q7X", "--field", "Diagnosis"] + options) {
                        try $0.run(output: $1)
                    })
            }
            let export = try run(ExportCommand.self, options) { command, output in
                try command.run { output(String(decoding: $0, as: UTF8.self)) }
            }
            return outputs + [export]
        }
    }

    @Test func nothingThatWasWrittenIsSeen() throws {
        let fixture = try Fixture()
        let plain = try fixture.outputs([]), whole = plain.joined().joined(separator: "\n")
        #expect(Self.planted.filter { whole.contains($0) }.count > 10)
        for seed in 0..<20 {
            let outputs = try fixture.outputs(["--anonymize", "--seed", "\(seed)"])
            #expect(outputs.map(\.count) == plain.map(\.count))
            let text = outputs.joined().joined(separator: "\n")
            #expect(Self.planted.filter { text.contains($0) } == [], "seed \(seed): \(text)")
            #expect(try fixture.outputs(["--anonymize", "--seed", "\(seed)"]) == outputs)
        }
    }

    /// The same rules, with the same words; what was one text is one text.
    @Test func theExplanationIsTheSame() throws {
        let fixture = try Fixture()
        func explain(_ arguments: String...) throws -> [String] {
            try fixture.run(ExplainCommand.self, arguments) { try $0.run(output: $1) }
        }
        let plain = try explain("3"), shown = try explain("3", "--anonymize", "--seed", "5")
        #expect(plain.map { $0.contains("R6: ") } == shown.map { $0.contains("R6: ") })
        #expect(plain.map { $0.hasPrefix("lost") } == shown.map { $0.hasPrefix("lost") })
        #expect(plain.last == shown.last)
        #expect(try explain("3", "--anonymize") != explain("3", "--anonymize"))
    }

    @Test func aSeedAloneIsRefused() {
        #expect(throws: (any Error).self) { try LogCommand.parse(["--path", "/\"a\"", "--seed", "1"]) }
    }
}
