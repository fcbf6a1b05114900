import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser
import Foundation
import Synchronization
import Testing

@testable import anabranch

/// Moments in the past of a file, as `--at`, `--since`, `--until` and `diff` take them.
@Suite struct LogMomentTests {
    private static let now = Date(timeIntervalSince1970: 1_795_528_800)  // 2026-11-24T14:00:00Z

    @Test(arguments: [
        ("2026-11-24T14:00Z", 0.0), ("2026-11-24T14:00:00.250Z", 0.25), ("2026-11-24 15:00:30+01:00", 30),
        ("2026-11-24T08:30-0530", 0), ("-2h", -7_200), ("2h", -7_200), ("90s", -90), ("5m", -300), ("1d", -86_400),
        ("2w", -1_209_600), ("2026-11-24T00:00Z", -50_400),
    ])
    func timesAreRead(text: String, seconds: Double) throws {
        let expected = ChangesetTime(secondsSince1970: Self.now.timeIntervalSince1970 + seconds)
        #expect(try LogMoment.parse(text, now: Self.now) == .time(expected))
    }

    @Test func aTimeWithoutAZoneIsThatOfTheComputer() throws {
        let parts = DateComponents(year: 2026, month: 7, day: 4, hour: 9, minute: 5)
        let date = try #require(Calendar(identifier: .gregorian).date(from: parts))
        let expected = ChangesetTime(secondsSince1970: date.timeIntervalSince1970)
        #expect(try LogMoment.parse("2026-07-04T09:05") == .time(expected))
        #expect(try LogMoment.parse("41") == .version(41))
    }

    @Test(arguments: [
        "", "x", "-", "h", "2y", "2026-02-30T00:00Z", "2026-11-24T25:00Z", "2026-11-24T14Z", "99999999999h", "1.5h",
        "2026-11-24T14:00+99:00", "2026-13-01",
    ])
    func anythingElseIsRefused(text: String) {
        #expect(throws: (any Error).self) { try LogMoment.parse(text) }
    }

    /// Versions 1 to 3 are a minute apart.
    @Test func stateDifferenceAndLogGoByTime() throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let path = "/\"notes\"", start = ChangesetTime(secondsSince1970: 1_700_000_000)
        let store = try SQLiteStore(directory: directory)
        let file = try SyncedFile(path: VirtualPath(path), store: store), clock = Mutex(start)
        file.clock = { clock.withLock { $0 } }
        for title in ["one", "two", "three"] {
            try file.write(at: 1) { transaction in
                if title == "one" {
                    try transaction.addClass("Note", key: "_id", .int)
                    try transaction.addColumn("title", .string, to: "Note")
                }
                try transaction.create("Note", key: 1)["title"] = .string(Array(title.utf8))
            }
            clock.withLock { $0.rawValue += 60_000 }
        }
        let other = try SyncedFile(path: VirtualPath("/other"), store: store)
        try other.write(at: 1) { try $0.addClass("Note", key: "_id", .int) }
        try store.close()

        let options = ["--data", directory, "--path", path]
        func lines(_ arguments: [String]) throws -> [String] {
            var lines: [String] = []
            try InspectCommand.parse(options + arguments).run { lines.append($0) }
            return lines
        }
        let second = "2023-11-14T22:14:20Z"
        #expect(try lines(["--at", "2023-11-14T22:14:19Z"])[0].contains("one"))
        #expect(try lines(["--at", second])[0].contains("two"))
        #expect(try lines(["--at", "-1s"])[0].contains("three"))
        #expect(throws: InputError.self) { try lines(["--at", "2023-11-14T22:13:19Z"]) }
        #expect(throws: InputError.self) { try lines(["--at", "9999-01-01T00:00Z"]) }
        #expect(throws: InputError.self) {
            try InspectCommand.parse(["--data", directory, "--path", "/other", "--at", "1s"]).run { _ in }
        }
        var difference: [String] = []
        try DiffCommand.parse(["2023-11-14T22:13:30Z", "3"] + options).run { difference.append($0) }
        #expect(difference == ["~ Note/1", "    title: \"one\" → \"three\""])
        var log: [String] = []
        try LogCommand.parse(options + ["--since", second, "--until", "-1h"]).run { log.append($0) }
        #expect(log.count == 1 && log[0].hasPrefix("3 "))
        log = []
        try LogCommand.parse(options + ["--until", second, "--object", "Note/1"]).run { log.append($0) }
        #expect(log.map { $0.prefix(2) } == ["2 ", "1 "])
        for (option, count) in [("--since", 3), ("--until", 0)] {
            log = []
            try LogCommand.parse(options + [option, "2023-11-14T22:13:19Z"]).run { log.append($0) }
            #expect(log.count == count, "a time before the file was made")
        }
        var explained: [String] = []
        try ExplainCommand.parse(["2"] + options).run { explained.append($0) }
        #expect(explained.contains("integrated by the server at 2023-11-14T22:14:20.000Z"))
    }
}
