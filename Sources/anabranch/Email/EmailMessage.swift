import Foundation

/// An e-mail of plain text, as defined by RFC 5322 and RFC 2045.
struct EmailMessage {
    let sender: EmailAddress
    let address: String
    let subject: String
    let text: String

    /// - Parameters:
    ///   - ident: a text that no other message has, without the domain.
    /// - Returns: lines without their ends, of 998 bytes at most.
    func lines(at date: Date = Date(), ident: String = UUID().uuidString) -> [String] {
        let domain = sender.address.split(separator: "@").last ?? ""
        var from = "<\(sender.address)>"
        if !sender.name.isEmpty { from = Self.encoded(sender.name) + "\r\n " + from }
        let head = [
            "Date: \(Self.text(of: date))", "From: \(from)", "To: <\(address)>", "Subject: \(Self.encoded(subject))",
            "Message-ID: <\(ident)@\(domain)>", "Auto-Submitted: auto-generated", "MIME-Version: 1.0",
            "Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: base64", "",
        ]
        let body = Data(text.replacing("\r\n", with: "\n").replacing("\n", with: "\r\n").utf8)
            .base64EncodedString(options: [.lineLength76Characters, .endLineWithCarriageReturn, .endLineWithLineFeed])
        return head.flatMap { $0.components(separatedBy: "\r\n") } + body.components(separatedBy: "\r\n")
    }

    private static func text(of date: Date) -> String {
        let format = DateFormatter()
        format.locale = Locale(identifier: "en_US_POSIX")
        format.timeZone = TimeZone(secondsFromGMT: 0)
        format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss"
        return format.string(from: date) + " +0000"
    }

    /// Text of a header as encoded words (RFC 2047) of at most 75 bytes. So nothing in it can end the header.
    static func encoded(_ text: String) -> String {
        var words = [""]
        for character in text.unicodeScalars {
            if (words.last ?? "").utf8.count + String(character).utf8.count > 39 { words.append("") }
            words[words.count - 1].unicodeScalars.append(character)
        }
        return words.map { "=?utf-8?B?\(Data($0.utf8).base64EncodedString())?=" }.joined(separator: "\r\n ")
    }
}
