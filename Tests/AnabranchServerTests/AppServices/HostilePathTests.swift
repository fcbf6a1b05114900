import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchSQLite
import Foundation
import Testing

@testable import AnabranchServer

/// Partition values are bytes of clients, and never the names of files.
@Suite struct HostilePathTests {
    private static let paths: [[UInt8]] = {
        let climbs = [
            "..", ".", "../", "/", "//", "../..", "../../../../etc/passwd", "/etc/passwd", "~", "~root", "./.",
        ]
        let encoded = [
            "%2e%2e%2f", "%2e%2e/", "..%2f", "%252e%252e%252f", "..%c0%af", "%00", "..%00/", "%5c..%5c", "..;/",
            "....//",
        ]
        let windows = [
            "..\\..\\", "C:\\Windows", "\\\\host\\share", "CON", "NUL", "file.txt:stream", "COM1.txt", "\\\\?\\C:\\",
        ]
        let files = [
            "anabranch.sqlite", "../anabranch.sqlite", "anabranch.sqlite-wal", "accounts.sqlite", "keys.json", "lock",
            "../keys.json", "/dev/null", "/dev/random", "/proc/self/environ", "/proc/self/fd/0", "file:///etc/passwd",
            "http://127.0.0.1/", "data:,x", "sqlite:///x?mode=memory", ":memory:", "file::memory:?cache=shared",
        ]
        let shells = [
            "$(touch x)", "`touch x`", "; touch x", "| touch x", "&& touch x", "\n touch x", "$HOME", "${HOME}", "*",
            "?",
            "[a-z]", "{a,b}", "!x", "#x", "-rf", "--help", "'", "\"", "' OR 1=1 --", "'; DROP TABLE synced_file; --",
        ]
        let json = [
            #""../../etc/passwd""#, #"{"$oid":"../../../../etc/x"}"#, #"{"$numberLong":"-1"}"#, "null", "[]", "{}",
            #""\u0000""#, #""\ud800""#, #"{"$uuid":"../"}"#, "\"\\u002e\\u002e/\"", #"{"a":{"a":{"a":1}}}"#,
        ]
        let formats = [
            "%s%s%s%n", "%x", "{0}", "{{7*7}}", "${jndi:ldap://x}", "<script>", "\u{1b}[2J", "\r\nHTTP/1.1 200 OK",
        ]
        let unicode = [
            "\u{202e}txt", "\u{feff}", "\u{200b}", "e\u{301}", "\u{e9}", "\u{ff0e}\u{ff0e}/", "\u{2215}etc", "\u{0}",
            " ",
            "a ", " a", "\t", "\u{7f}", "\u{1F4A9}", "A", "a", "\u{130}",
        ]
        let bytes: [[UInt8]] = [
            [0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0x2e, 0x2e, 0x00, 0x2f], [0xfe, 0xff, 0, 0x2e],
            [UInt8](repeating: 0x2e, count: 4096), [UInt8](repeating: 0x2f, count: 65_536),
            Array(repeating: Array("../".utf8), count: 10_000).flatMap { $0 },
        ]
        let texts = climbs + encoded + windows + files + shells + json + formats + unicode
        return texts.map { Array($0.utf8) } + bytes
    }()

    /// All of them are served, each its own file of the store, and the directory holds what it held before.
    @Test func eachIsASyncedFileAndNoFileOnDisk() async throws {
        #expect(Self.paths.count >= 100)
        #expect(Set(Self.paths).count == Self.paths.count)
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("paths-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let store = try SQLiteStore(directory: folder.appendingPathComponent("data").path)
        // Nobody can make these any more, but there may be some from earlier.
        for path in Self.paths where path.count > Limits().newPartitionBytesMax {
            let file = try store.open(VirtualPath(Array("demo/".utf8) + path))
            try store.commit([Commit(file: file.id, lease: file.lease, head: file.head)])
        }
        let before = try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted()
        var settings = AppServicesRig.development
        settings.userWithoutToken = "developer"
        let allocated = try await AppServicesRig.run(settings, store: store) { rig async throws in
            var binds: [UInt8] = []
            for (index, path) in Self.paths.enumerated() {
                let head = "bind \(index + 1) \(path.count) 0 1 0\n"
                binds += AppServicesRig.frame(0x82, Array(head.utf8) + path)
            }
            return try await rig.connect { socket in
                try await socket.send(Array(rig.handshake(token: "").utf8) + binds)
                let answer = try await socket.readToEnd { Self.idents(in: $0) >= Self.paths.count }
                return Self.idents(in: answer)
            }
        }
        #expect(allocated == Self.paths.count)
        #expect(try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted() == before)
        let names = Self.paths.map { path in VirtualPath(Array("demo/".utf8) + path).canonical }
        let files = try names.map { try store.open($0) }
        #expect(Set(files.map(\.id)).count == Self.paths.count)
        #expect(files.allSatisfy { $0.head.nextIdent == 3 })
        try store.close()
    }

    /// How many sessions have been given a client file.
    private static func idents(in answer: [UInt8]) -> Int {
        String(decoding: answer, as: UTF8.self).matches(of: /ident [0-9]+ 2 [0-9]+\n/).count
    }
}
