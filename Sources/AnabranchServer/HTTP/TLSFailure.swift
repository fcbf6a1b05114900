/// The reason why TLS has failed, for the log.
enum TLSFailure {
    /// The meaning of an error, with the name that the TLS library gives it, without the source locations that the
    /// library adds.
    static func words(of error: any Error) -> String {
        let text = "\(error)"
        guard let name = text.firstMatch(of: /OPENSSL_internal:(\w+)/)?.output.1 else { return text }
        switch name {
        case "HTTP_REQUEST": return "HTTP came in place of TLS (\(name))"
        case "UNSUPPORTED_PROTOCOL": return "the client knows only old versions of TLS (\(name))"
        case "WRONG_VERSION_NUMBER": return "what came is not TLS (\(name))"
        // Clients of TLS 1.3 say so in a form that is broken by then.
        case "BAD_PACKET_LENGTH": return "the client has broken off; it may not trust the certificate (\(name))"
        case _ where name.contains("ALERT") && name.contains(/UNKNOWN_CA|CERTIFICATE/):
            return "the client does not trust the certificate (\(name))"
        default: return String(name)
        }
    }
}
