import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser
import CommandSupport

/// `anabranch repair`: rebuilds everything that the log determines.
struct RepairCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "repair",
        abstract: "Rebuild damaged states and keys from the log.",
        discussion: """
            Checks synced files as `anabranch verify` does. Where the state or the conflict keys are damaged and the \
            log is not, they are dropped and rebuilt from the log, and the file is checked again. Clients notice \
            nothing. Damaged segments of the archive are taken away, and clients of flexible sync whose views are \
            damaged start over. The server must not be running.

            A damaged log entry, client file or reciprocal changeset cannot be repaired; nothing of such a file is \
            changed. The damage is named, and up to which version the log is what was written: restore a backup, or \
            let clients that need only later versions go on. If the database itself is damaged, nothing is changed \
            at all.

            Prints a line for each synced file, a line for each damage that is left below it, and a summary. The exit \
            status is 0 if nothing is damaged any more.

            EXAMPLES
              anabranch repair --data ./data
              anabranch repair --data ./data '/"notes"' && anabranch serve \\
                  --config anabranch.yaml
            """)

    @OptionGroup var store: StoreOption

    @Argument(help: "Which synced files, named as `anabranch verify` prints them. (default: all)")
    var files: [String] = []

    func run() throws {
        let repair = try StoreRepair(directory: store.directory())
        var counts = (files: 0, repaired: 0, damaged: 0)
        try repair.run(files.isEmpty ? nil : try paths()) { file in
            print(RepairCommand.line(for: file))
            for damage in file.damages { print("  \(damage)") }
            if let reason = file.reason { print("  the state cannot be rebuilt: \(reason)") }
            counts.files += 1
            if !file.repaired.isEmpty { counts.repaired += 1 }
            if !file.damages.isEmpty { counts.damaged += 1 }
        }
        try repair.close()
        print("\(counted(counts.files, "file")): \(counts.repaired) repaired, \(counts.damaged) damaged")
        if counts.damaged > 0 { throw HistoryError(.storeDamaged, "not everything can be repaired") }
    }

    private func paths() throws(HistoryError) -> [VirtualPath] {
        var paths: [VirtualPath] = []
        for word in files {
            guard let path = VirtualPath(description: word) else {
                throw HistoryError(.storeUnusable, "\(word) is not a name of a synced file")
            }
            paths.append(path)
        }
        return paths
    }

    private static func line(for file: RepairedFile) -> String {
        var parts: [String] = []
        if file.repaired.contains(.state) { parts.append("state") }
        if file.repaired.contains(.conflictKeys) { parts.append("conflict keys") }
        if file.repaired.contains(.generations) { parts.append("bootstrap generations") }
        var made = parts.isEmpty ? "" : ", \(parts.joined(separator: " and ")) rebuilt from the log"
        if file.repaired.contains(.archive) { made += ", damaged segments of the archive taken away" }
        if file.repaired.contains(.views) { made += ", client files with damaged views expired" }
        if file.damages.isEmpty { return "\(file.path): ok\(made)" }
        return "\(file.path): DAMAGED\(made), the log is good up to version \(file.goodVersion)"
    }
}
