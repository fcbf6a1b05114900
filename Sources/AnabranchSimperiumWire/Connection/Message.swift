/// A message of a client, as far as it can be read without knowing its channel (`Spec/Simperium.md`, section 8).
enum Message: Equatable {
    /// `h:`, with the number that is answered.
    case heartbeat(answer: Int)
    /// `log:`, with what the client tells.
    case log(Substring)
    /// A command on a channel, which may have no number.
    case command(channel: ChannelName, name: Substring, payload: Substring)
    /// It cannot be read.
    case unreadable

    init(_ text: String) {
        let text = text[...]
        if let first = text.utf8.first, 0x30...0x39 ~= first {
            let (channel, rest) = text.split()
            guard let number = UInt32(channel), let rest, channel.utf8.count < 10 else {
                self = .unreadable
                return
            }
            let (name, payload) = rest.split()
            self = .command(channel: ChannelName(number: number), name: name, payload: payload ?? "")
            return
        }
        let (name, payload) = text.split()
        switch name {
        case "h":
            let number = payload.flatMap { Int($0) }
            self = .heartbeat(answer: number.flatMap { $0 >= 0 && $0 < .max ? $0 + 1 : nil } ?? 1)
        case "log": self = .log(payload ?? "")
        case "init", "auth", "i", "e", "cv", "c", "index", "o":
            self = .command(channel: ChannelName(number: nil), name: name, payload: payload ?? "")
        default: self = .unreadable
        }
    }
}

/// The payload of `e`: a key, and after its last point a version.
struct EntityQuestion: Equatable {
    let key: String
    /// Nil if it is not a number.
    let version: UInt64?

    /// - Returns: nil for what no client asks, which is not answered.
    init?(_ payload: Substring) {
        guard payload.utf8.count <= 4_096, !payload.utf8.contains(where: { $0 < 0x20 }) else { return nil }
        let point = payload.utf8.lastIndex(of: UInt8(ascii: "."))
        key = point.map { String(payload[..<$0]) } ?? ""
        version = point.flatMap { UInt64(payload[payload.utf8.index(after: $0)...]) }
    }
}

/// The number of a channel; nil for the one that has none.
struct ChannelName: Hashable {
    var number: UInt32?

    /// The beginning of every message on the channel.
    var prefix: String { number.map { "\($0):" } ?? "" }
}

extension Substring {
    /// The parts before and after the first colon.
    fileprivate func split() -> (Substring, Substring?) {
        guard let colon = utf8.firstIndex(of: UInt8(ascii: ":")) else { return (self, nil) }
        return (self[..<colon], self[utf8.index(after: colon)...])
    }
}
