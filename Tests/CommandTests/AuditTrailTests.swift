import AnabranchCore
import Foundation
import Logging
import Synchronization
import Testing

@testable import anabranch

/// The record of who did something, and when.
@Suite struct AuditTrailTests {
    private final class Lines: TextOutputStream, Sendable {
        let text = Mutex("")

        func write(_ string: String) { text.withLock { $0 += string } }
    }

    private static func withFolder(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("audit-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder.path)
    }

    private static func lines(_ path: String) throws -> [JSONValue] {
        try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map { try JSONValue(parsing: $0.utf8) }
    }

    @Test func whatIsAuditedIsThereWhateverTheLevelOfTheLogIs() throws {
        try Self.withFolder { folder in
            let trail = AuditTrail(inDirectory: folder)
            let log = Lines()
            var logger = Logger(
                label: "test", factory: { AuditHandler(StreamLogHandler(label: $0, stream: log), trail) })
            logger.logLevel = .error
            logger.error("a failure")
            logger.notice("expired", metadata: ["audit": "file", "path": "a/\"b\""])
            logger.notice("something else", metadata: ["path": "c"])
            logger[metadataKey: "by"] = "ann"
            logger.notice("a line\nbreak", metadata: ["audit": "user", "user": "x\ny"])
            let lines = try Self.lines(folder + "/audit.log")
            #expect(lines.map { $0["what"] } == ["file", "user"])
            #expect(lines.map { $0["by"] } == ["server", "ann"])
            #expect(lines.first?["path"] == "a/\"b\"" && lines.last?["user"] == "x\ny")
            #expect(log.text.withLock(\.self).contains("a failure"))
            #expect(!log.text.withLock(\.self).contains("expired"))
            let mode = try FileManager.default.attributesOfItem(atPath: folder + "/audit.log")[.posixPermissions]
            #expect(mode as? Int == 0o600)
        }
    }

    @Test func itIsBounded() throws {
        try Self.withFolder { folder in
            let trail = AuditTrail(inDirectory: folder, bytesMax: 1_000)
            for number in 0..<100 { trail.record("expire", by: "ann", ["client_ident": "\(number)"]) }
            let names = Set(try FileManager.default.contentsOfDirectory(atPath: folder))
            #expect(names.isSubset(of: ["audit.log", "audit.log.1"]))
            let numbers = try names.sorted().reversed().flatMap { try Self.lines(folder + "/" + $0) }
                .compactMap { $0["client_ident"]?.string }
            #expect(numbers.last == "99" && numbers.count < 30)
            let sizes = try names.map { try Data(contentsOf: URL(fileURLWithPath: folder + "/" + $0)).count }
            #expect(sizes.allSatisfy { $0 < 1_200 })
        }
    }

    /// However many clients the server lets expire, what people have done is still there.
    @Test func expiriesPushOutNothingElse() throws {
        try Self.withFolder { folder in
            let trail = AuditTrail(inDirectory: folder, bytesMax: 1_000)
            trail.record("delete", by: "ann", ["path": "a"])
            trail.record("expire", by: "ann", ["client_ident": "7"])
            for number in 0..<100 { trail.record("expire", by: "server", ["client_ident": "\(number)"]) }
            let names = Set(try FileManager.default.contentsOfDirectory(atPath: folder))
            #expect(names.isSubset(of: ["audit.log", "expired.log", "expired.log.1"]))
            #expect(try Self.lines(folder + "/audit.log").map { $0["what"] } == ["delete", "expire"])
            #expect(try Self.lines(folder + "/expired.log.1").allSatisfy { $0["what"] == "expire" })
        }
    }
}
