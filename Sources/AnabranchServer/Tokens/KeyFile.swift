import AnabranchCore
public import AnabranchHistory
import Crypto
import Foundation
public import Logging

/// The keys with which a server signs its tokens: a file that only its owner can read, made at the first start.
///
/// The first key signs. The others are former first keys. They are kept until the last token that they signed has
/// expired, so a new key ends no session. A running server reads the file again when it has changed.
public final class KeyFile: Sendable {
    private struct Secret: Equatable {
        let ident: String
        let bytes: [UInt8]
        /// The time at which it was made, in seconds since 1970.
        let createdAt: Int64
    }

    private static let secretBytes = 32

    private let read: @Sendable () async -> [TokenKey]

    /// Reads the keys. Makes the file, with one key, if there is none.
    /// - Parameter now: seconds since 1970.
    /// - Throws: `FileError`, also if others than its owner could read it.
    public init(path: String, now: UInt64, logger: Logger) async throws {
        if !FileManager.default.fileExists(atPath: path) {
            try Self.write([Self.newSecret(now: Int64(clamping: now))], to: path)
            logger.notice("key made", metadata: ["path": "\(path)"])
        }
        let file = try await WatchedFile(path, logger: logger) {
            try Self.read(path).map { TokenKey(ident: $0.ident, secret: $0.bytes) }
        }
        read = { await file.value() }
    }

    /// Takes keys that a store keeps for several servers in place of a file.
    /// - Parameter keys: the one that signs first.
    public init(_ keys: [SigningKey]) {
        let keys = keys.map { TokenKey(ident: $0.ident, secret: $0.secret) }
        read = { keys }
    }

    /// A new key.
    /// - Parameter now: seconds since 1970.
    public static func newKey(now: UInt64) -> SigningKey {
        let secret = newSecret(now: Int64(clamping: now))
        return SigningKey(ident: secret.ident, secret: secret.bytes, createdAt: now)
    }

    /// Puts a new key before the others, and removes those that were replaced more than `lifetimeSeconds` ago: every
    /// token that they signed has expired.
    /// - Parameter now: seconds since 1970.
    /// - Returns: the new key's ident.
    /// - Throws: `FileError`.
    public static func rotate(path: String, now: UInt64, lifetimeSeconds: UInt64) throws -> String {
        let now = Int64(clamping: now)
        let newest = newSecret(now: now)
        let secrets = [newest] + (try read(path))
        // A key was replaced when the one before it was made.
        let retained = zip(secrets, secrets.dropFirst())
            .prefix { successor, _ in now - successor.createdAt <= Int64(clamping: lifetimeSeconds) }
        try write([newest] + retained.map(\.1), to: path)
        return newest.ident
    }

    /// Checks that a file holds keys, whatever its permissions.
    /// - Throws: `FileError` if it does not.
    public static func check(path: String) throws { _ = try secrets(in: path) }

    /// The keys in a file, the one that signs first; none if there is no file.
    /// - Throws: `FileError`, also if others than its owner could read it.
    package static func signingKeys(path: String) throws -> [SigningKey] {
        guard FileManager.default.fileExists(atPath: path) else { return [] }
        return try read(path).map {
            SigningKey(ident: $0.ident, secret: $0.bytes, createdAt: UInt64(clamping: $0.createdAt))
        }
    }

    /// Makes a file of keys.
    /// - Parameter keys: the one that signs first.
    package static func make(_ keys: [SigningKey], path: String) throws {
        let secrets = keys.map {
            Secret(ident: $0.ident, bytes: $0.secret, createdAt: Int64(clamping: $0.createdAt))
        }
        try write(secrets, to: path)
    }

    /// The keys, the one that signs first.
    func keys() async -> [TokenKey] { await read() }

    private static func newSecret(now: Int64) -> Secret {
        Secret(
            ident: RandomText.hexadecimal(bytes: 8),
            bytes: SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) }, createdAt: now)
    }

    // MARK: The file

    private static func read(_ path: String) throws -> [Secret] {
        try PrivateFile.check(path)
        return try secrets(in: path)
    }

    private static func secrets(in path: String) throws -> [Secret] {
        let notKeys = FileError(path, "not a file of keys")
        guard let bytes = FileManager.default.contents(atPath: path),
            let entries = try? JSONValue(parsing: bytes)["keys"]?.array
        else { throw notKeys }
        let secrets = entries.compactMap { entry -> Secret? in
            guard let ident = entry["kid"]?.string, entry["alg"]?.string == "HS256",
                let bytes = entry["k"]?.string.flatMap({ Base64URL.decode($0.utf8) }), bytes.count >= secretBytes,
                let createdAt = entry["created"]?.integer, createdAt >= 0
            else { return nil }
            return Secret(ident: ident, bytes: bytes, createdAt: createdAt)
        }
        guard !secrets.isEmpty, secrets.count == entries.count, Set(secrets.map(\.ident)).count == secrets.count else {
            throw notKeys
        }
        return secrets
    }

    private static func write(_ secrets: [Secret], to path: String) throws {
        let entries = secrets.map { secret -> JSONValue in
            [
                "alg": "HS256", "created": .integer(secret.createdAt), "k": .string(Base64URL.encode(secret.bytes)),
                "kid": .string(secret.ident),
            ]
        }
        try PrivateFile.write(JSONValue.object(["keys": .array(entries)]).encoded + "\n", to: path)
    }
}
