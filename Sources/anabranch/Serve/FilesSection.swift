import AnabranchFilesWire
import AnabranchServer
import CommandSupport
import Yams

/// The file spaces of an app, in the configuration file:
///
///     files: {trash-days: 30, quota-bytes: 10737418240}
struct FilesSection {
    private static let keys = ["trash-days", "quota-bytes"]
    private static let trashDays = 1...36_500
    private static let quotaBytes = Int64(1 << 20)...Int64(1) << 60

    /// The place of the section, for messages.
    let place: String
    private(set) var problems: [String] = []

    init(place: String) { self.place = place }

    mutating func read(_ node: Node) -> FilesApp {
        var app = FilesApp()
        guard let mapping = node.mapping else {
            problems.append("\(place): \(AppsSection.found(node)); allowed: {}, or like {trash-days: 30}")
            return app
        }
        for (key, value) in mapping {
            let name = key.scalar?.string ?? "", text = value.scalar?.string ?? ""
            switch name {
            case "trash-days":
                if let days = UInt32(asPrinted: text).map(Int.init), Self.trashDays.contains(days) {
                    app.trashDays = days
                } else {
                    refuse(name, value, Self.trashDays)
                }
            case "quota-bytes":
                if let bytes = UInt64(asPrinted: text).flatMap(Int64.init(exactly:)), Self.quotaBytes.contains(bytes) {
                    app.quotaBytes = bytes
                } else {
                    refuse(name, value, Self.quotaBytes)
                }
            default: problems.append("\(place): " + KnownWords.unknown("setting", name, of: Self.keys))
            }
        }
        return app
    }

    private mutating func refuse<Number>(_ name: String, _ value: Node, _ allowed: ClosedRange<Number>) {
        problems.append(
            "\(place): \(name): \(AppsSection.found(value)); allowed: a whole number from \(allowed.lowerBound) to "
                + "\(allowed.upperBound)")
    }
}
