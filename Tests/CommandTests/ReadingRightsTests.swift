import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import Foundation
import Testing

/// A file that a user may not read is not damaged; and nobody needs to write to read.
@Suite final class ReadingRightsTests {
    private let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
    private var data: String { directory + "/data" }
    private var backup: String { directory + "/backup" }

    private static let reading = [
        "verify --data $1", "inspect --data $1", "inspect --data $1 --path '/\"notes\"'",
        "log --data $1 --path '/\"notes\"'", "show 1 --data $1 --path '/\"notes\"'",
        "export --data $1 --path '/\"notes\"'",
    ]

    init() throws {
        let store = try SQLiteStore(directory: directory + "/data")
        let file = try SyncedFile(path: VirtualPath("/\"notes\""), store: store)
        try file.write(at: 2500) { tx in
            try tx.addClass("Note", key: "_id", .int)
            try tx.create("Note", key: 1)
        }
        try store.close()
        let secret = String(repeating: "A", count: 43)
        let keys = #"{"keys":[{"alg":"HS256","created":1,"k":"\#(secret)","kid":"a"}]}"#
        try Data(keys.utf8).write(to: URL(fileURLWithPath: directory + "/data/keys.json"))
        _ = try StoreBackup(of: directory + "/data", to: directory + "/backup").run()
    }

    deinit {
        _ = try? BuiltCommands.bash("chmod -R u+rwX $1", directory)
        try? FileManager.default.removeItem(atPath: directory)
    }

    /// As a user who is not the administrator, whom nothing is forbidden.
    private static let isPossible =
        geteuid() != 0 || BuiltCommands.succeeds("setpriv --reuid=65534 --clear-groups anabranch --version")
    private let asOther = geteuid() == 0 ? "setpriv --reuid=65534 --clear-groups anabranch" : "anabranch"

    @Test(.enabled(if: isPossible, "needs another user"))
    func whatIsForbiddenIsNotDamaged() throws {
        let forbidding = [
            ("chmod 755 $2; chmod 000 $1", ""), ("chmod 755 $2 $1; chmod 000 $1/*.sqlite", "/"),
            ("chmod 755 $2 $1; chmod 644 $1/*.sqlite; chmod 000 $1/*.json", "/"),
        ]
        for target in [data, backup] {
            for (command, place) in forbidding {
                _ = try BuiltCommands.bash(command, target, directory)
                for line in Self.reading + ["backup --data $1 --to $2", "restore --from $1 --data $2"] {
                    let answer = try BuiltCommands.bash("\(asOther) \(line)", target, directory + "/new")
                    #expect(answer.status == 1, "\(line)")
                    #expect(answer.complaint.hasPrefix("Error: \(target)\(place)"), "\(line): \(answer.complaint)")
                    #expect(answer.complaint.contains(": Permission denied; it belongs to the user "), "\(line)")
                    #expect(!answer.complaint.contains("damage"), "\(line): \(answer.complaint)")
                }
            }
        }
    }

    private static let hasReadOnlyMounts = BuiltCommands.succeeds("unshare -rm mount --bind -o ro /tmp /tmp")

    @Test(
        .enabled(if: hasReadOnlyMounts, "needs unshare, and a system that lets it mount a folder for reading only"),
        arguments: reading)
    func nobodyNeedsToWriteToRead(_ line: String) throws {
        for target in [data, backup] {
            _ = try BuiltCommands.bash("rm -f $1/*-wal $1/*-shm", target)
            let expected = try BuiltCommands.bash("anabranch \(line)", target)
            #expect(expected.status == 0, "\(expected.complaint)")
            for removed in ["", "rm -f $1/lock; "] {
                let mount = "\(removed)mount --bind $1 $1 && mount -o remount,bind,ro $1 && anabranch \(line)"
                let answer = try BuiltCommands.bash("unshare -rm bash -c \"$2\" \"$0\" \"$1\"", target, mount)
                #expect(answer.status == 0, "\(line): \(answer.complaint)")
                #expect(answer.output == expected.output)
            }
        }
    }

    @Test func aBackupIsNotTakenForData() throws {
        let before = try BuiltCommands.bash("cat $1/*", backup).output
        let answer = try BuiltCommands.bash("anabranch restore --data $1", backup)
        #expect(answer.status == 1)
        #expect(answer.complaint.contains("is a backup, and nothing was changed: `anabranch restore --from \(backup)"))
        #expect(try BuiltCommands.bash("cat $1/*", backup).output == before)
        let inPlace = try BuiltCommands.bash("anabranch restore --in-place --data $1", backup)
        #expect(inPlace.status == 0, "\(inPlace.complaint)")
        #expect(inPlace.output.hasSuffix("1 file: restored\n"))
    }

    @Test func aBackupThatHasLostAFileSaysWhich() throws {
        _ = try BuiltCommands.bash("rm $1/keys.json", backup)
        let answer = try BuiltCommands.bash("anabranch restore --from $1 --data $2", backup, directory + "/new")
        #expect(answer.status == 1)
        #expect(answer.complaint == "Error: \(backup)/keys.json is missing: use another backup\n")
    }
}
