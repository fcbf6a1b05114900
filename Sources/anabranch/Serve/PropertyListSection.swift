import AnabranchOverTheAirWire
import CommandSupport
import Yams

/// The dataclasses of an app, and the files that register them.
struct ConfiguredDataclasses: Equatable {
    var app: OverTheAirApp
    var files: [String]
}

/// The dataclasses of an app that devices sync as property lists, in the configuration file:
///
///     property-list: {url: /ota, folder: ota, dataclasses: [contacts.json, calendars.json]}
struct PropertyListSection {
    private static let keys = ["url", "folder", "dataclasses"]
    /// The paths of other routes.
    private static let taken = ["/1", "/sock", "/api"]

    /// The place of the section, for messages.
    let place: String
    private(set) var problems: [String] = []

    init(place: String) { self.place = place }

    /// - Returns: nil if nothing in the section can be used.
    mutating func read(_ node: Node) -> ConfiguredDataclasses? {
        guard let mapping = node.mapping else {
            problems.append("\(place): \(AppsSection.found(node)); allowed: like {url: /ota, dataclasses: [FILE]}")
            return nil
        }
        var url = "/ota", folder = OverTheAirApp.usualFolder, files: [String] = []
        for (key, value) in mapping {
            switch key.scalar?.string {
            case "url":
                url = value.scalar?.string ?? ""
                let isPath = url.wholeMatch(of: /(\/[A-Za-z0-9_.-]+)+/) != nil
                if !isPath || Self.taken.contains(where: { url == $0 || url.hasPrefix("\($0)/") }) {
                    problems.append(
                        "\(place): url: \(AppsSection.found(value)); allowed: a path such as /ota, but not below "
                            + Self.taken.joined(separator: ", "))
                }
            case "folder":
                folder = value.scalar?.string ?? ""
                if folder.wholeMatch(of: /[A-Za-z0-9_.-]+/) == nil {
                    problems.append("\(place): folder: \(AppsSection.found(value)); allowed: a word such as ota")
                }
            case "dataclasses":
                files = value.sequence?.compactMap(\.scalar?.string) ?? []
                if files.isEmpty || files.count != value.sequence?.count {
                    problems.append("\(place): dataclasses: \(AppsSection.found(value)); allowed: a list of files")
                }
            case let name: problems.append("\(place): " + KnownWords.unknown("setting", name ?? "", of: Self.keys))
            }
        }
        if mapping["dataclasses"] == nil { problems.append("\(place): dataclasses is missing: a list of files") }
        let app = OverTheAirApp(url: url, folder: folder, dataclasses: dataclasses(files))
        return ConfiguredDataclasses(app: app, files: files)
    }

    private mutating func dataclasses(_ files: [String]) -> [Dataclass] {
        var dataclasses: [Dataclass] = []
        for file in files {
            do {
                let dataclass = try Dataclass(parsing: Array(TextInput.text(ofFile: file).utf8))
                if let reason = dataclass.conflict(with: dataclasses) {
                    problems.append("\(file): \(reason)")
                } else {
                    dataclasses.append(dataclass)
                }
            } catch let error as InputError {
                problems.append(error.description)
            } catch {
                problems.append("\(file): \(error)")
            }
        }
        return dataclasses
    }
}
