import AnabranchCore

/// A world as it went, to be played by a page: JSON Lines (`Spec/Inspector.md`, section 8). The same seed gives the
/// same bytes.
package struct Recording {
    /// The most bytes of events. Later events are missing, and the recording says so.
    package static let bytesMax = 16 << 20
    /// The bytes from which on messages are left out, so that what they bring about still has room.
    static let messageBytesMax = 8 << 20
    /// The most bytes of a text of an event.
    static let textBytesMax = 300

    private var events: [UInt8] = []
    private var head = ""
    private(set) var eventCount = 0
    private var hasAllMessages = true
    private var isCut = false

    /// Creates a recording whose first line is to come.
    package init() {}

    /// True while messages are recorded.
    var recordsMessages: Bool { hasAllMessages && !isCut }

    mutating func begin(_ head: String) { self.head = head }

    /// Adds an event: an array of its time in milliseconds, its name, and its parts as JSON.
    mutating func add(_ name: StaticString, _ parts: [String], at time: Int64) {
        guard !isCut else { return }
        guard events.count < Self.bytesMax else {
            isCut = true
            return append("cut", [], time)
        }
        append(name, parts, time)
        guard hasAllMessages, events.count >= Self.messageBytesMax else { return }
        hasAllMessages = false
        append("silence", [], time)
    }

    private mutating func append(_ name: StaticString, _ parts: [String], _ time: Int64) {
        eventCount += 1
        events += "[\(time),\"\(name)\"\(parts.map { "," + $0 }.joined())]\n".utf8
    }

    /// The whole recording, with its last line.
    func ended(_ end: String) -> [UInt8] { Array((head + "\n").utf8) + events + Array((end + "\n").utf8) }

    /// A text as JSON, cut if it is long.
    static func text(_ text: String) -> String {
        guard text.utf8.count > textBytesMax else { return JSONText.quoted(text) }
        return JSONText.quoted(String(decoding: text.utf8.prefix(textBytesMax), as: UTF8.self) + "…")
    }

    static func array(_ elements: some Sequence<String>) -> String { "[" + elements.joined(separator: ",") + "]" }
}
