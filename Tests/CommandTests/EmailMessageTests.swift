import Foundation
import Testing

@testable import anabranch

/// The text of e-mails, and the program that sends them.
@Suite struct EmailMessageTests {
    private static func lines(_ subject: String, _ text: String = "x", from sender: String = "a@b") throws -> [String] {
        EmailMessage(
            sender: try #require(EmailAddress(sender)), address: "ann@example.com", subject: subject, text: text
        ).lines(at: Date(timeIntervalSince1970: 0), ident: "one")
    }

    @Test func aMessageIsLinesOfASCII() throws {
        let lines = try Self.lines("Grüße", "é\n.\r\n", from: "My App <app@example.com>")
        #expect(
            lines == [
                "Date: Thu, 01 Jan 1970 00:00:00 +0000", "From: =?utf-8?B?TXkgQXBw?=", " <app@example.com>",
                "To: <ann@example.com>", "Subject: =?utf-8?B?R3LDvMOfZQ==?=", "Message-ID: <one@example.com>",
                "Auto-Submitted: auto-generated", "MIME-Version: 1.0", "Content-Type: text/plain; charset=utf-8",
                "Content-Transfer-Encoding: base64", "", "w6kNCi4NCg==",
            ])
    }

    @Test(arguments: [
        "x\r\nBcc: all@example.com", "x\n\nbody", "\u{2028}\u{85}\u{0}", String(repeating: "é😀", count: 99),
    ])
    func nothingInAHeaderEndsIt(text: String) throws {
        let lines = try Self.lines(text)
        let head = lines.prefix { !$0.isEmpty }
        #expect(head.allSatisfy { $0.utf8.count <= 78 && $0.utf8.allSatisfy { (0x20...0x7e).contains($0) } })
        let names = head.filter { !$0.hasPrefix(" ") }.map { $0.prefix { $0 != ":" } }
        #expect(
            names == [
                "Date", "From", "To", "Subject", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type",
                "Content-Transfer-Encoding",
            ])
        let words = head.drop { !$0.hasPrefix("Subject: ") }.prefix { $0.hasPrefix("Subject: ") || $0.hasPrefix(" ") }
        let bytes = words.map { $0.split(separator: "?").dropLast().last.flatMap { Data(base64Encoded: String($0)) } }
        #expect(String(decoding: bytes.compactMap(\.self).joined(), as: UTF8.self) == text)
        #expect(bytes.compactMap(\.self).allSatisfy { String(validating: $0, as: UTF8.self) != nil })
    }

    @Test(arguments: [
        ("a@b", "", "a@b"), ("App <a@b>", "App", "a@b"), ("<a@b>", "", "a@b"),
        ("Ä \"B\", C <a+c@b.org>", "Ä \"B\", C", "a+c@b.org"),
    ])
    func sendersAreRead(text: String, name: String, address: String) {
        #expect(EmailAddress(text)?.name == name && EmailAddress(text)?.address == address)
    }

    @Test(arguments: [
        "", "App", "a@b>", "<a@b", "a b@c", "A\r\nB <a@b>", "A\u{0} <a@b>", "<a@b>\nX: y", "a@b@c", "é@b",
    ])
    func otherTextsAreNoSenders(text: String) { #expect(EmailAddress(text) == nil) }

    // MARK: The program

    private static func run(_ words: [String], seconds: Int = 30) async -> String {
        do {
            try await EmailCommand(words: words, secondsMax: seconds).run("{}\n")
            return ""
        } catch {
            return "\(error)"
        }
    }

    @Test func aProgramThatEndsWellHasSent() async {
        #expect(await Self.run(["/bin/sh", "-c", "read line && test \"$line\" = '{}'"]) == "")
        #expect(await Self.run(["/bin/sh", "-c", "exec <&-; exit 0"]) == "", "it need not read")
    }

    @Test func anyOtherProgramHasNot() async {
        #expect(await Self.run(["/bin/sh", "-c", "exit 7"]) == "/bin/sh ended with status 7")
        #expect(await Self.run(["/bin/sh", "-c", "kill -KILL $$"]) == "/bin/sh ended with signal 9")
        #expect(await Self.run(["/nowhere/program"]) == "/nowhere/program cannot be started")
        let stuck = await Self.run(["/bin/sh", "-c", "trap '' TERM; while :; do :; done"], seconds: 1)
        #expect(stuck == "/bin/sh has not ended within 1 s, and was killed")
    }
}
