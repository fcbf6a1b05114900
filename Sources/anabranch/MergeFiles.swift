import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch merge-files`: makes one synced file of several that older versions have made of one partition.
struct MergeFilesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "merge-files",
        abstract: "Join the synced files of one partition.",
        discussion: """
            A partition is a value: clients may spell it in different ways, as 42 and {"$numberLong":"42"}, and mean \
            one file. Older versions made a file of each spelling. Where there are several, each spelling keeps its \
            own until they are joined (Spec/Protocol.md, section 4.2); `anabranch verify` and the log of the server \
            name them. One whose only file has another spelling needs nothing.

            The file with the usual spelling stays, or else the first one. It gets all that the others hold, as if a \
            device had written it offline: objects and elements of both, and of a field that both hold the newer \
            value. An object that one file has and the other has erased is there again. Then the others are deleted. \
            Their clients get a client reset, in which the SDKs keep what was not uploaded; those of the file that \
            stays download what is new.

            The server must not be running. What is joined has to fit into memory. A join that was interrupted goes on \
            when it is repeated. Make a backup first. The exit status is 1 if files cannot be joined; these stay as \
            they are.

            EXAMPLES
              anabranch merge-files --data ./data --dry-run
              anabranch backup --data ./data --to ./before && anabranch merge-files \\
                  --data ./data
              anabranch merge-files --data ./data 'my-app/42' && anabranch serve \\
                  --config anabranch.yaml
            """)

    @OptionGroup var store: StoreOption

    @Argument(help: "Which partitions, by the path of a file of theirs. (default: all that have several files)")
    var files: [String] = []

    @Flag(help: "Say what would be joined, and change nothing; also while the server runs.")
    var dryRun = false

    func run() throws {
        try StoreOption.explainingErrors {
            let count = dryRun ? try tell() : try join()
            if count == 0 { print("no partition has several files") }
        }
    }

    /// - Returns: the number of files that would go away.
    private func tell() throws -> Int {
        let reader = try store.reader(), groups = try chosen(of: reader.partitionNames().duplicates)
        for group in groups {
            for path in group.dropFirst() {
                guard let file = try reader.file(path) else { continue }
                var objectCount = 0
                try file.state(at: file.head.version).forEachExportLine {
                    if $0.first == UInt8(ascii: "[") { objectCount += 1 }
                }
                print(Self.line("would join", path, into: group[0], objectCount, file.head.clientFileCount))
            }
        }
        return groups.reduce(0) { $0 + $1.count - 1 }
    }

    /// - Returns: the number of files that were to go away.
    private func join() throws -> Int {
        let join = try StoreJoin(directory: store.directory())
        var count = 0, failureCount = 0
        for files in try chosen(of: join.partitions) {
            try join.run(files, at: UInt64(Date().timeIntervalSince1970)) { outcome in
                count += 1
                switch outcome.result {
                case .success(let report): print(Self.line(for: outcome, report))
                case .failure(let error):
                    failureCount += 1
                    let reason = (error as? HistoryError)?.reason ?? "\(error)"
                    let line = "\(outcome.path): cannot be joined with \(outcome.other): \(reason)\n"
                    FileHandle.standardError.write(Data(line.utf8))
                }
            }
        }
        try join.close()
        if failureCount > 0 { throw InputError(description: "\(counted(failureCount, "file")) could not be joined") }
        return count
    }

    /// The files of the partitions that are meant, each group beginning with the file that stays.
    private func chosen(of all: [[VirtualPath]]) throws -> [[VirtualPath]] {
        guard !files.isEmpty else { return all }
        return try files.map { word in
            for path in VirtualPath.meanings(of: word) {
                if let group = all.first(where: { $0[0].canonical == path.canonical }) { return group }
            }
            throw InputError(description: "\(word): the partition has no second file")
        }
    }

    private static func line(for outcome: StoreJoin.Outcome, _ report: FileJoin.Report) -> String {
        let count = report.restoredCount
        let restored = count > 0 ? "; \(counted(count, "object")) that it has erased restored" : ""
        return line("joined", outcome.path, into: outcome.other, report.objectCount, outcome.clientFileCount) + restored
    }

    private static func line(
        _ verb: String, _ path: VirtualPath, into other: VirtualPath, _ objectCount: Int, _ clientCount: UInt64
    ) -> String {
        """
        \(other): \(verb) \(path) with \(counted(objectCount, "object")); \
        \(counted(Int(clamping: clientCount), "client file")) of it will reset
        """
    }
}
