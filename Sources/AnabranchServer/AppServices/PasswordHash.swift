import CryptoExtras
import Foundation
import NIOPosix

/// Passwords as they are stored: `scrypt$<log2 N>$<salt>$<hash>`, with r = 8 and p = 1.
///
/// One hash takes 128 · 8 · N bytes and, with the default cost, about 60 ms of a processor, whether or not there is
/// such a user.
struct PasswordHash: Sendable {
    private static let hashBytes = 32
    private static let blockSize = 8

    /// Half as many as there are processors.
    static let threadCount = max(1, ProcessInfo.processInfo.activeProcessorCount / 2)

    /// The threads that hash all passwords. They do nothing else, so that no other work, least of all handshakes, waits
    /// for a hash. They last as long as the process.
    static let threads = {
        let threads = NIOThreadPool(numberOfThreads: threadCount)
        threads.start()
        return threads
    }()

    /// log2 of scrypt's N for new hashes: 15 means 32 MiB.
    var cost = 15

    func hash(_ password: String) throws -> String {
        let salt = (0..<16).map { _ in UInt8.random(in: 0...255) }
        let hash = try Self.derive(password, salt: salt, cost: cost)
        return "scrypt$\(cost)$\(Base64URL.encode(salt))$\(Base64URL.encode(hash))"
    }

    /// True if the password is the one that was hashed. Without a hash it is false, after the same time.
    func verify(_ password: String, against stored: String?) throws -> Bool {
        let parts = (stored ?? "").split(separator: "$")
        guard parts.count == 4, parts[0] == "scrypt", let cost = Int(parts[1]), (1...20).contains(cost),
            let salt = Base64URL.decode(parts[2].utf8), !salt.isEmpty, let expected = Base64URL.decode(parts[3].utf8)
        else {
            _ = try Self.derive(password, salt: Array(repeating: 0, count: 16), cost: self.cost)
            return false
        }
        let hash = try Self.derive(password, salt: salt, cost: cost)
        var difference: UInt8 = hash.count == expected.count ? 0 : 1
        for (one, other) in zip(hash, expected) { difference |= one ^ other }
        return difference == 0
    }

    private static func derive(_ password: String, salt: [UInt8], cost: Int) throws -> [UInt8] {
        // The library traps on an empty buffer, which an empty password would be without the zero byte.
        try KDF.Scrypt.deriveKey(
            from: Array(password.utf8) + [0], salt: salt, outputByteCount: hashBytes, rounds: 1 << cost,
            blockSize: blockSize, parallelism: 1
        ).withUnsafeBytes { Array($0) }
    }
}
