import AnabranchCore
import AnabranchPropertyList
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch admin ota`: the devices of an account that sync property lists.
struct AdminOverTheAir: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ota", abstract: "Devices that sync property lists: list them, try a match, reset them.",
        discussion: """
            `devices` lists the devices of an account, and what they sync.

            `match` shows what a slow sync of a device would come to, in which it sends all its records and the server \
            finds out which of its own they are (Spec/OverTheAirServer.md, section 5): for each record which one that \
            is, by what it was found, and in which fields the value of the device, or that of the server, counts. \
            Nothing is written. The records are a property list: a dictionary from ids to records with `entity` and \
            `fields`, or what `anabranch ota read` prints. With --device they are those of a device that has synced \
            before: its ids count, and the server's values win; without it they are those of a new one.

            `reset` has all devices, or one, give up their records of a dataclass at the next sync, with what was \
            edited and not sent, and take the server's: if the data of a device are in disorder, or the server's were \
            restored. The records on the server stay as they are.

            EXAMPLES
              anabranch admin ota devices 'my-app/"ota/5f0c2d9e8b7a6c5d4e3f2a1b"' \\
                  --data ./data
              anabranch admin ota match 'my-app/"ota/5f0c2d9e8b7a6c5d4e3f2a1b"' --dry-run \\
                  --dataclass com.example.contacts --records records.plist --data ./data
              anabranch admin ota reset 'my-app/"ota/5f0c2d9e8b7a6c5d4e3f2a1b"' \\
                  --dataclass com.example.contacts --yes --data ./data
            """)

    enum Action: String, CaseIterable, ExpressibleByArgument {
        case devices, match, reset
    }

    @OptionGroup var options: AdminOptions
    @Argument(help: "What to do.")
    var action: Action
    @Argument(help: "The synced file of the account, as `admin files` shows it.")
    var file: String
    @Option(help: "The dataclass, for `match` and `reset`.")
    var dataclass: String?
    @Option(help: "A device, as `devices` shows it.")
    var device: String?
    @Option(help: ArgumentHelp("The records of the device, for `match`; - is the standard input.", valueName: "file"))
    var records: String?
    @Flag(help: "With `match`, where it has to be given: a match is made only when a device syncs.")
    var dryRun = false
    @Flag(help: "With `reset`: do it. Without this the command only says what it would do.")
    var yes = false

    func validate() throws {
        guard (action == .match) == dryRun else {
            throw ValidationError(
                dryRun
                    ? "--dry-run is for `match`." : "Give --dry-run: a match is made only when a device syncs.")
        }
        guard action == .devices || dataclass != nil else { throw ValidationError("Which data? Give --dataclass.") }
        guard (action == .match) == (records != nil) else { throw ValidationError("`match` has --records.") }
        guard !yes || action == .reset else { throw ValidationError("--yes is for `reset`.") }
    }

    func run() async throws {
        let whom = device.map { "the device \($0)" } ?? "all devices of the account"
        guard action != .reset || yes else {
            return print("\(whom) would give up the records of \(dataclass ?? ""); to do it, add --yes")
        }
        var request = ["door": "property-list", "action": action.rawValue, "path": file]
        (request["dataclass"], request["device"]) = (dataclass, device)
        if let records { request["records"] = Base64.encode(try items(in: records)) }
        try await options.run { [request] client in
            let answer = try await client.post("/v1/doors/act", request)
            if options.json { return show(answer) }
            guard let told = try? JSONValue(parsing: Array(answer)) else { return show(answer) }
            switch action {
            case .devices: print(Self.devices(told), terminator: "")
            case .match: print(Self.matches(told))
            case .reset: print("reset at the next sync: \(dataclass ?? ""), \(whom)")
            }
        }
    }

    private static func devices(_ told: JSONValue) -> String {
        let rows = (told["devices"]?.array ?? []).flatMap { device -> [[String]] in
            let seen = Date(timeIntervalSince1970: Double(device["seen"]?.integer ?? 0)).formatted(.iso8601)
            let start = [device["device"]?.string ?? "", device["model"]?.string ?? "-", seen]
            let dataclasses = (device["dataclasses"]?.array ?? []).map { dataclass in
                [
                    dataclass["dataclass"]?.string ?? "", dataclass["form"]?.string ?? "-",
                    "\(dataclass["sessions"]?.integer ?? 0)",
                ]
            }
            return (dataclasses.isEmpty ? [["-", "-", "0"]] : dataclasses).map { start + $0 }
        }
        return "\(TextTable(columns: ["DEVICE", "MODEL", "SEEN", "DATACLASS", "FORM", "SESSIONS"], rows: rows))"
    }

    private static func matches(_ told: JSONValue) -> String {
        func words(_ value: JSONValue?) -> String {
            let names = value?.array?.compactMap(\.string) ?? []
            return names.isEmpty ? "-" : names.joined(separator: ", ")
        }
        let matches = told["matches"]?.array ?? [], refused = told["refused"]?.array ?? []
        let rows = matches.map { match in
            [
                match["id"]?.string ?? "", match["by"]?.string ?? "", match["record"]?.string ?? "-",
                words(match["from_device"]), words(match["from_server"]),
            ]
        }
        var text = "\(TextTable(columns: ["ID", "BY", "RECORD", "FROM DEVICE", "FROM SERVER"], rows: rows))"
        for item in refused { text += "refused: \(item["id"]?.string ?? ""): \(item["reason"]?.string ?? "")\n" }
        let new = matches.count { $0["record"]?.string == nil }, pushed = Int(told["pushed"]?.integer ?? 0)
        return text + "\(matches.count - new) matched, \(new) new, \(refused.count) refused; the device would be sent "
            + counted(pushed, "item")
    }

    /// The records of the dataclass in a file, in the binary form.
    private func items(in file: String) throws -> [UInt8] {
        let limits = PropertyListLimits(bytesMax: 30 << 20, valuesMax: 1 << 24)
        do {
            let input = try PropertyList(parsing: try TextInput.bytes(ofFile: file), limits: limits)
            guard input.dictionary != nil else { throw InputError(description: "\(file): no dictionary of records") }
            return try (dataclass.flatMap { input[$0] } ?? input).encoded(as: .binary, limits: limits)
        } catch let error as PropertyListError {
            throw InputError(description: "\(file): \(error)")
        }
    }
}
