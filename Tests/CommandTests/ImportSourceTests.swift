import AnabranchTesting
import Foundation
import Testing

@testable import anabranch

/// The lines that an import reads from a file.
@Suite struct ImportSourceTests {
    @Test func zerosAfterAGzipMemberArePassedOver() throws {
        // {"a":1} and a line feed.
        let member: [UInt8] = [
            31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 86, 74, 84, 178, 50, 172, 229, 2, 0, 70, 163, 232, 116, 8, 0, 0, 0,
        ]
        let zeros = [UInt8](repeating: 0, count: 2 << 20)
        for (bytes, count) in [(member, 1), (member + [0], 1), (member + zeros, 1), (member + member + zeros, 2)] {
            let url = FileManager.default.temporaryDirectory.appending(path: "zeros-\(UUID().uuidString)")
            defer { try? FileManager.default.removeItem(at: url) }
            try Data(bytes).write(to: url)
            var source = try ImportSource(url.path)
            for _ in 0..<count { #expect(try source.next() == Array(#"{"a":1}"#.utf8)) }
            #expect(try source.next() == nil)
        }
    }

    /// A file of one line can have any size, and one of gzip grows: nothing is kept of a line but what can be one.
    @Test func ofALineThatIsTooLongOnlyItsEndIsKept() throws {
        let piece = 1 << 20, folder = FileManager.default.temporaryDirectory
        for (end, isBlank) in [("\n", false), ("\r\n", false), ("", false), ("\n", true)] {
            let url = folder.appending(path: "lines-\(UUID().uuidString)")
            defer { try? FileManager.default.removeItem(at: url) }
            let long = Data(repeating: UInt8(ascii: isBlank ? " " : "a"), count: 5 * piece + 7)
            let others = end.isEmpty ? [] : ["", "last"]
            let text = Data("first\n".utf8) + long + Data((end + others.joined(separator: end)).utf8)
            try text.write(to: url)
            var source = try ImportSource(url.path)
            source.lineBytesMax = piece
            #expect(try source.next() == Array("first".utf8))
            try source.requireWhole()
            #expect(try #require(try source.next()).count <= 2 * piece)
            #expect(source.lineNumber == 2 && source.size == long.count)
            let complaint = "it has \(long.count) bytes, more than \(piece)"
            #expect { try source.requireWhole() } throws: { "\($0)" == complaint }
            #expect { _ = try source.document([]) } throws: { "\($0)" == complaint }
            #expect(try source.next() == (end.isEmpty ? nil : Array("last".utf8)))
            if !end.isEmpty { try source.requireWhole() }
            #expect(try source.next() == nil)
        }
    }
}
