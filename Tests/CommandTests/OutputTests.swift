import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import Foundation
import Testing

/// Output that cannot be written is an error of every command.
@Suite(.enabled(if: FileManager.default.fileExists(atPath: "/dev/full"), "needs a device that is full"))
final class OutputTests {
    private let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()

    init() throws {
        let store = try SQLiteStore(directory: directory)
        let file = try SyncedFile(path: VirtualPath("/\"notes\""), store: store)
        try file.write(at: 2500) { tx in
            try tx.addClass("Note", key: "_id", .int)
            for number in 0..<2_000 { try tx.create("Note", key: .int(Int64(number))) }
        }
        try store.close()
    }

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    @Test(arguments: [
        "anabranch --help", "anabranch --version", "anabranch help admin", "anabranch config print --dev",
        "anabranch verify --data $1", "anabranch inspect --data $1", "anabranch inspect --data $1 --path '/\"notes\"'",
        "anabranch log --data $1 --path '/\"notes\"' --json", "anabranch show 1 --data $1 --path '/\"notes\"'",
        "anabranch export --data $1 --path '/\"notes\"'", "anabranch-lab --version",
        "anabranch-lab fuzz merge --cases 3 --json", "anabranch-lab bench cases - --only list-insert-1000",
    ])
    func aFullDiskIsAnErrorOfTheCommand(_ line: String) throws {
        let answer = try BuiltCommands.bash(line + " >/dev/full", directory)
        #expect(answer.status == 1)
        #expect(
            answer.complaint.hasSuffix("Error: the output cannot be written: No space left on device\n"),
            "\(answer.complaint)")
    }

    @Test func aFileOfResultsIsTheSame() throws {
        for line in [
            "anabranch-lab bench cases /dev/full --only list-insert-1000",
            "anabranch-lab bench cases - --only list-insert-1000 > $1/c; anabranch-lab merge --in $1/c --out /dev/full",
        ] {
            let answer = try BuiltCommands.bash(line, directory)
            #expect(answer.status == 1)
            #expect(
                answer.complaint.hasSuffix("Error: /dev/full: cannot be written: No space left on device\n"),
                "\(answer.complaint)")
        }
    }

    /// The command begins when the pipe is closed, so its first byte cannot be written. A signal ends it, unless that
    /// is ignored, as it may be already by whoever runs the tests.
    @Test(arguments: [
        "anabranch show 1 --data $1 --path '/\"notes\"'", "anabranch export --data $1 --path '/\"notes\"'",
        "anabranch --help",
    ])
    func whoeverHasReadEnoughClosesThePipe(_ line: String) throws {
        for (ignoring, statuses) in [("", [128 + SIGPIPE, 0]), ("trap '' PIPE; ", [0])] {
            let answer = try BuiltCommands.bash(
                """
                closed="$1/closed"; rm -f "$closed"; mkfifo "$closed"; \(ignoring)
                { read -r <"$closed"; \(line); } | { exec <&-; echo >"$closed"; }
                echo ${PIPESTATUS[0]}
                """, directory)
            #expect(!answer.complaint.contains("Error"))
            #expect(statuses.contains { answer.output == "\($0)\n" }, "\(answer)")
        }
    }
}
