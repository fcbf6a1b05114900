import AnabranchCore
import Testing

@testable import AnabranchProtocol

/// MARKs where other nodes write the file as well (`Spec/Nodes.md`, section 2, R4): news may not have come yet.
@Suite struct NodeMarkTests {
    @Test func theFileIsAskedBeforeAMarkIsAnswered() throws {
        let conversation = try Conversation(asksBeforeMarks: true)
        try conversation.run()
        #expect(conversation.receive("mark 1 3\n") == .ask(try conversation.handle(1), .newestVersion))
        #expect(conversation.said() == [])
        try conversation.answer(.newestVersion(4), for: 1)
        #expect(conversation.said() == ["scan 1 0 0"])
        try conversation.download(to: 4)
        #expect(conversation.said().last == "mark 1 3\n")
    }

    @Test func anAnswerServesNoLaterMark() throws {
        let conversation = try Conversation(asksBeforeMarks: true)
        try conversation.run()
        conversation.receive("mark 1 1\n")
        conversation.receive("mark 1 2\n")
        try conversation.answer(.newestVersion(0), for: 1)
        #expect(conversation.said() == [])
        try conversation.answer(.newestVersion(0), for: 1)
        #expect(conversation.said() == ["mark 1 2\n"])
        // Nobody has asked.
        try conversation.answer(.newestVersion(0), for: 1)
        conversation.receive("mark 1 3\n")
        #expect(conversation.said() == [])
    }
}
