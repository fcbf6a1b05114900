import ArgumentParser
import CommandSupport
import Foundation

struct AdminDoors: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doors", abstract: "The records of other wires, and how many clients they have.",
        discussion: """
            A door serves programs that keep no log of their own, such as Simperium's clients. What it has to remember \
            of them are records beside the log: a line for each kind, with the number of files that have some, of \
            records, and of their bytes. `server` is what the server keeps for itself; a number is a door that does \
            not run. All records of the store are looked at for it, or those of one file.

            With --drop, the records of a door go from a file: once it is out of the configuration, since the door \
            would have to start over otherwise. Objects stay.

            EXAMPLES
              anabranch admin doors --data ./data
              anabranch admin doors 'notes/"simperium/ann"' --data ./data
              anabranch admin doors 'notes/"simperium/ann"' --drop 1 --yes --data ./data
            """)

    /// The doors, as the server lists them.
    struct Listing: Decodable {
        struct Door: Decodable {
            struct Records: Decodable { var kind: String, files: Int, records: Int, bytes: UInt64 }

            var door: String, connections: Int?, records: [Records]
        }

        static let columns = ["DOOR", "CONNECTIONS", "KIND", "FILES", "RECORDS", "BYTES"]
        var doors: [Door]
        var rows: [[String]] {
            doors.flatMap { door in
                let connections = door.connections.map { "\($0)" } ?? "-"
                guard !door.records.isEmpty else { return [[door.door, connections, "-", "0", "0", "0"]] }
                return door.records.map { kind in
                    [door.door, connections, kind.kind, "\(kind.files)", "\(kind.records)", "\(kind.bytes)"]
                }
            }
        }
    }

    @OptionGroup var options: AdminOptions
    @Argument(help: "A synced file, as `admin files` shows it; all if none is given.")
    var file: String?
    @Option(help: ArgumentHelp("Erase the records of this door in the file.", valueName: "door"))
    var drop: String?
    @Flag(help: "With --drop: do it. Without this the command only says what would be erased.")
    var yes = false

    func validate() throws {
        guard drop == nil || file != nil else { throw ValidationError("--drop: name the file") }
        guard drop != nil || !yes else { throw ValidationError("--yes needs --drop") }
    }

    private struct Drop: Encodable {
        var path: String
        var door: String
    }

    private struct Dropped: Decodable { var erased: Int }

    func run() async throws {
        try await options.run { client in
            if let drop, let file, yes {
                let answer = try await client.post("/v1/doors/drop", Drop(path: file, door: drop))
                if options.json { return show(answer) }
                let erased = try JSONDecoder().decode(Dropped.self, from: answer).erased
                return print("erased: \(counted(erased, "record")) of \(drop)")
            }
            let answer = try await client.get("/v1/doors", [("path", file)])
            if options.json { return show(answer) }
            var listing = try JSONDecoder().decode(Listing.self, from: answer)
            if let drop { listing.doors.removeAll { $0.door != drop } }
            print(TextTable(columns: Listing.columns, rows: listing.rows), terminator: "")
            if drop != nil { print("these would be erased; to do it, add --yes") }
        }
    }
}
