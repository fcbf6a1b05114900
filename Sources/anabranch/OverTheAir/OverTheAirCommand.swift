import AnabranchCore
import AnabranchOverTheAirDevice
import AnabranchOverTheAirWire
import AnabranchPropertyList
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch ota`: a device that syncs property lists.
struct OverTheAirCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ota",
        abstract: "A device that syncs property lists.",
        discussion: """
            The records of a device are in a SQLite file. They are read and edited offline; `sync` brings what was \
            edited to a server with `property-list` in its configuration, and what others have done comes back. A \
            session that is cut off goes on with the next call from the last checkpoint; nothing is sent twice.

            What the device syncs is in the files with which the operator registers dataclasses. They are given with \
            --dataclass when a store is made, and again if they change.

            EXAMPLES
              anabranch ota sync --store phone.sqlite --dataclass contacts.json \\
                  --url https://sync.example.com/ota --app my-app --account ann@example.com
              anabranch ota write changes.plist --store phone.sqlite
              anabranch ota read --store phone.sqlite
            """,
        subcommands: [OverTheAirSync.self, OverTheAirWrite.self, OverTheAirRead.self])
}

/// `DeviceOptions.Form`, as the command line spells it.
enum DeviceFormChoice: String, CaseIterable, ExpressibleByArgument {
    case records, changes

    var form: DeviceOptions.Form { self == .records ? .records : .changes }
}

/// The options that say which device is meant.
struct DeviceStoreOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The file with the records of the device; made if it is missing.", valueName: "file"))
    var store: String

    @Option(
        help: ArgumentHelp(
            "The file that registers a dataclass, once for each; needed once, and after a change.", valueName: "file"))
    var dataclass: [String] = []

    @Option(help: "Send whole records, or the fields that have changed. (default: as before; changes at first)")
    var form: DeviceFormChoice?

    @Flag(help: "Give records of others ids of the device. Told once, it stays.")
    var ownIds = false

    @Flag(help: "Send XML in place of the binary form. Told once, it stays.")
    var xml = false

    @Option(help: ArgumentHelp("Take at most so many items in a message. Told once, it stays.", valueName: "count"))
    var itemsMax: Int?

    @Flag(help: "Print JSON, one object a line.")
    var json = false

    func validate() throws {
        guard itemsMax ?? 1 > 0 else { throw ValidationError("--items-max must be 1 or more.") }
    }

    func device() throws -> PropertyListDevice {
        var dataclasses: [DeviceDataclass] = []
        for file in dataclass {
            do {
                dataclasses.append(DeviceDataclass(try Dataclass(parsing: Array(TextInput.text(ofFile: file).utf8))))
            } catch let error as DataclassError {
                throw InputError(description: "\(file): \(error)")
            }
        }
        if !FileManager.default.fileExists(atPath: store), dataclasses.isEmpty {
            throw InputError(description: "\(store): no such file; to make it, say what is synced: --dataclass FILE")
        }
        let known = dataclasses.isEmpty ? nil : dataclasses
        let device = try PropertyListDevice(store: store, dataclasses: known)
        var options = device.options
        if let form { options.form = form.form }
        if ownIds { options.mapsIDs = true }
        if xml { options.isBinary = false }
        if let itemsMax { options.itemsMax = itemsMax }
        guard options != device.options else { return device }
        return try PropertyListDevice(store: store, dataclasses: known, options: options)
    }
}

extension DeviceDataclass {
    fileprivate init(_ dataclass: Dataclass) {
        self.init(
            uri: dataclass.uri,
            entities: dataclass.entities.map { entity in
                Entity(
                    name: entity.name, fields: entity.fields.keys.sorted(),
                    relationships: entity.relationships.keys.sorted())
            })
    }
}

/// `anabranch ota write`.
struct OverTheAirWrite: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "write",
        abstract: "Edit records of the device; `sync` sends them.",
        discussion: """
            The input is a property list, in XML or binary: a dictionary from dataclass to items, which are \
            dictionaries with `op` (add, modify, delete), `entity`, `set` and `clear`, by the ids of records. To add \
            one, give it an id that no record has had. All edits of a dataclass are made, or none.

            EXAMPLES
              anabranch ota write changes.plist --store phone.sqlite
              plutil -convert xml1 -o - changes.json \\
                  | anabranch ota write --store phone.sqlite
            """)

    @OptionGroup var options: DeviceStoreOptions

    @Argument(help: "The file; - is the standard input.")
    var file = "-"

    func run() async throws {
        let device = try options.device()
        let bytes = try TextInput.bytes(ofFile: file)
        let input: PropertyList
        do { input = try PropertyList(parsing: bytes, limits: PropertyListLimits(bytesMax: 64 << 20)) } catch {
            throw InputError(description: "\(file): no property list: \(error)")
        }
        guard let dataclasses = input.dictionary, dataclasses.allSatisfy({ $0.value.dictionary != nil }) else {
            throw InputError(description: "\(file): no dictionary from dataclass to items")
        }
        for (uri, items) in dataclasses { try device.edit(items: items.dictionary ?? [:], of: uri) }
        let count = dataclasses.reduce(0) { $0 + ($1.value.dictionary?.count ?? 0) }
        if options.json {
            StandardOutput.write(line: Array(JSONValue.object(["edited": .integer(Int64(count))]).encoded.utf8))
        } else {
            print("edited: \(counted(count, "record"))")
        }
    }
}

/// `anabranch ota read`.
struct OverTheAirRead: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "read",
        abstract: "Print the records of the device.",
        discussion: """
            As a property list in XML: a dictionary from dataclass to records, which are dictionaries with `entity` \
            and `fields`, by their ids. With --json, one record a line: dates as text, data in base64.

            EXAMPLES
              anabranch ota read --store phone.sqlite > records.plist
              anabranch ota read --store phone.sqlite --json | jq .fields.name
            """)

    @OptionGroup var options: DeviceStoreOptions

    func run() async throws {
        let device = try options.device()
        var all: PropertyListDictionary = [:]
        for uri in device.dataclasses.map(\.uri).sorted() {
            let records = try device.records(of: uri)
            if options.json {
                for record in records {
                    let members: [String: JSONValue] = [
                        "dataclass": .string(uri), "id": .string(record.id), "entity": .string(record.entity),
                        "fields": PropertyList.dictionary(record.fields).json,
                    ]
                    StandardOutput.write(line: Array(JSONValue.object(members).encoded.utf8))
                }
            } else {
                let items = records.map { record -> (String, PropertyList) in
                    (record.id, ["entity": .string(record.entity), "fields": .dictionary(record.fields)])
                }
                all[uri] = .dictionary(PropertyListDictionary(items) { $1 })
            }
        }
        guard !options.json else { return }
        do {
            let limits = PropertyListLimits(bytesMax: .max, valuesMax: .max)
            StandardOutput.write(Data(try PropertyList.dictionary(all).encoded(as: .xml, limits: limits)))
        } catch {
            throw InputError(description: "XML cannot carry the records: \(error); --json can")
        }
    }
}

extension PropertyList {
    /// The value in JSON, without its type.
    var json: JSONValue {
        switch self {
        case .string(let text): .string(text)
        case .integer(let number): .integer(number)
        case .real(let number): .real(number)
        case .bool(let flag): .bool(flag)
        case .date(let date): .string("\(date)")
        case .data(let bytes): .string(Base64.encode(bytes))
        case .array(let values): .array(values.map(\.json))
        case .dictionary(let members): .object(Dictionary(members.map { ($0.key, $0.value.json) }) { $1 })
        case .largeInteger, .illFormedString, .refused: .null
        }
    }
}
