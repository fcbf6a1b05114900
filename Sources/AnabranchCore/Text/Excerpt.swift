extension String {
    /// The length, in bytes, to which names chosen by peers are cut in reasons of errors, and so on the wire and in
    /// logs.
    package static let excerptBytesMax = 64

    /// Creates an excerpt of a peer's text, which may be megabytes, for a message of our own. A text of more than
    /// `limit` bytes is cut before the character that crosses the limit, and its length is added.
    package init(excerptOf text: some BidirectionalCollection<UInt8>, upTo limit: Int = String.excerptBytesMax) {
        guard text.count > limit else {
            self.init(decoding: text, as: UTF8.self)
            return
        }
        var end = text.index(text.startIndex, offsetBy: limit)
        while end > text.startIndex, UTF8.isContinuation(text[end]) { text.formIndex(before: &end) }
        self = "\(String(decoding: text[..<end], as: UTF8.self))… (\(text.count) bytes)"
    }
}
