extension String {
    /// What peers call something is cut to this length in reasons of errors, and so on the wire and in logs, in bytes.
    package static let excerptBytesMax = 64

    /// What a peer has written, in words of ours: it may be megabytes. What is longer than `limit` is cut before the
    /// character that crosses it, and says how long it is.
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
