import AnabranchCore
import Crypto

/// The key of an entity: 1 to 256 characters without control characters and `/` (`Spec/Simperium.md`, section 5).
enum EntityKey {
    /// The longest key, in bytes.
    static let bytesMax = 256

    /// The text that stands for the bucket itself where a key does.
    static let ofBucket = ""

    /// The keys that are valid, in words.
    static let rule = "1 to \(bytesMax) bytes without control characters and / are needed"

    static func isValid(_ key: String) -> Bool {
        (1...bytesMax).contains(key.utf8.count)
            && !key.utf8.contains { $0 < 0x20 || $0 == 0x7F || $0 == UInt8(ascii: "/") }
    }

    /// The key of an object as an entity; nil if it cannot be one.
    static func text(of key: PrimaryKey) -> String? {
        guard case .string(let bytes) = key, let text = String(validating: bytes, as: UTF8.self), isValid(text) else {
            return nil
        }
        return text
    }
}

/// The name of a bucket: 1 to 64 letters, digits and `._-%`.
enum BucketName {
    /// The longest name, in bytes.
    static let bytesMax = 64

    static func isValid(_ name: String) -> Bool {
        (1...bytesMax).contains(name.utf8.count)
            && name.utf8.allSatisfy { isPlain($0) || "._-%".utf8.contains($0) }
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }

    /// The names that the class of a bucket may have: the first one if nothing else has it. No bucket has its own name
    /// if that looks like one that was made for another.
    static func classNames(_ name: String) -> [String] {
        let allowed = name.utf8.filter { isPlain($0) || $0 == UInt8(ascii: "_") }
        let hash = Hex.encode(SHA256.hash(data: Array(name.utf8)).prefix(hashBytes))
        let other = "b_\(String(decoding: allowed.prefix(40), as: UTF8.self))_\(hash)"
        let isOwn = allowed.count == name.utf8.count && name.utf8.count <= classBytesMax && !isMade(name)
        return isOwn ? [name, other] : [other]
    }

    private static let hashBytes = 4

    /// True if a name looks like one that is made for a bucket.
    private static func isMade(_ name: String) -> Bool {
        let end = name.utf8.suffix(2 * hashBytes + 1)
        return name.hasPrefix("b_") && end.first == UInt8(ascii: "_")
            && Hex.decode(String(decoding: end.dropFirst(), as: UTF8.self))?.count == hashBytes
    }

    /// The longest name of a class.
    private static let classBytesMax = 57
}
