import Crypto
import Foundation
public import Logging

/// The secret that gives access to the admin interface.
public struct AdminToken: Sendable {
    /// The shortest token, in bytes.
    static let bytesMin = 16

    private let digest: SHA256.Digest

    /// A token with this text.
    /// - Returns: nil if the text is too short, or a header cannot carry it.
    public init?(_ text: String) {
        guard text.utf8.count >= Self.bytesMin, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else { return nil }
        digest = SHA256.hash(data: Data(text.utf8))
    }

    /// Reads the token from a file. A missing file is created with mode 0600 and a random token.
    /// - Throws: `FileError`, also if others than its owner could read the file.
    public init(path: String, logger: Logger) throws {
        if !FileManager.default.fileExists(atPath: path) {
            try PrivateFile.write(RandomText.hexadecimal(bytes: 32) + "\n", to: path)
            logger.notice("token of the admin interface made", metadata: ["path": "\(path)"])
        }
        guard let token = AdminToken(try Self.text(path: path)) else {
            throw FileError(path, "a token has at least \(Self.bytesMin) visible ASCII characters")
        }
        self = token
    }

    /// The text of the token in a file.
    /// - Throws: `FileError`, also if others than its owner could read the file.
    public static func text(path: String) throws -> String {
        try PrivateFile.check(path)
        guard let bytes = FileManager.default.contents(atPath: path) else { throw FileError.last(path) }
        return String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Signs a text: nobody who does not know the token can.
    package func signature(of text: String) -> [UInt8] {
        let key = SymmetricKey(data: Data(digest))
        return Array(HMAC<SHA256>.authenticationCode(for: Data(text.utf8), using: key))
    }

    /// Compares digests, so that the time it takes tells nothing about the token.
    func isMatched(by text: some StringProtocol) -> Bool { SHA256.hash(data: Data(text.utf8)) == digest }
}
