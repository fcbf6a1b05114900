import AnabranchCore
import AnabranchHistory
import Testing

@testable import anabranch

/// The lines of `anabranch log`, newest first.
@Suite struct LogLineTests {
    private static func entry(_ version: UInt64, of client: UInt64 = 0, _ changeset: [UInt8] = []) -> LogEntry {
        LogEntry(
            version: ServerVersion(rawValue: version), salt: 1, origin: ClientFileID(rawValue: client),
            clientVersion: 0, timestamp: 0, cumulativeSize: 0, changeset: changeset)
    }

    @Test func versionsThatTheServerHasAddedAreOneLine() throws {
        var lines = LogLines(width: 3), printed: [String] = []
        let added = (52...100).reversed().map { Self.entry($0) }
        for entry in [Self.entry(102), Self.entry(101, of: 3)] + added + [Self.entry(51, of: 3), Self.entry(50)] {
            printed += lines.add(entry)
        }
        printed += [lines.finish()].compactMap(\.self)
        #expect(lines.finish() == nil)
        let text = printed.map { line in
            line.split(separator: "  ").enumerated().filter { $0.offset != 1 }.map(\.element)
        }
        #expect(
            text == [
                ["102", "server", "0 bytes", "nothing"], ["101", "client 3", "0 bytes", "nothing"],
                ["52-100", "server", "0 bytes", "nothing in 49 versions, added for bootstraps"],
                [" 51", "client 3", "0 bytes", "nothing"], [" 50", "server", "0 bytes", "nothing"],
            ])
    }
}
