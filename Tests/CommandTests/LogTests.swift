import Foundation
import Logging
import Synchronization
import Testing

@testable import anabranch

@Suite struct LogTests {
    private final class Lines: TextOutputStream, Sendable {
        let lines = Mutex<[String]>([])

        func write(_ text: String) { lines.withLock { $0.append(text) } }
    }

    @Test func anEntryIsAnObjectOfTexts() throws {
        let stream = Lines()
        var logger = Logger(label: "x") { _ in LineLogHandler(format: .json, stream: stream) }
        logger.logLevel = .debug
        logger[metadataKey: "connection"] = "7"
        logger.debug("a \"text\"\nof lines", metadata: ["count": "\(3)", "connection": "8"])
        logger.trace("nobody asks for it")
        let lines = stream.lines.withLock { $0 }
        #expect(lines.count == 1)
        var entry = try JSONDecoder().decode([String: String].self, from: Data(lines[0].utf8))
        let time = entry.removeValue(forKey: "time") ?? ""
        #expect(time.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil, "\(time)")
        #expect(
            entry == [
                "level": "debug", "message": "a \"text\"\nof lines", "connection": "8", "count": "3",
            ])
        #expect(!lines[0].contains("\n"))
    }

    @Test func anEntryIsALineThatPeopleAndPatternsRead() throws {
        let stream = Lines()
        var logger = Logger(label: "x") { _ in LineLogHandler(format: .text, stream: stream) }
        logger[metadataKey: "path"] = #"/"notes""#
        logger.notice("a refusal", metadata: ["a": "", "b": #"two "words""#, "c": #""quoted""#, "d": "x=1"])
        let line = try #require(stream.lines.withLock { $0.first })
        #expect(line.dropFirst(24) == #" notice a refusal a="" b="two \"words\"" c="\"quoted\"" d=x=1 path=/"notes""#)
    }
}
