public import AnabranchCore

/// The name of a synced file: an app's id, and in partition-based sync a slash and the partition value. Stores use it
/// as a key and never as the name of a file on disk.
public struct VirtualPath: Hashable, Sendable, CustomStringConvertible {
    /// Any bytes, perhaps none.
    public let bytes: [UInt8]

    /// Takes any bytes.
    public init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

    /// Takes the UTF-8 of a text.
    public init(_ text: String) { self.init(text.utf8) }

    /// Hashes all bytes at once: a path is looked up several times for each request.
    public func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }

    /// The path as one printable word: visible ASCII as it is, every other byte and `%` as `%xx`.
    public var description: String {
        var text: [UInt8] = []
        for byte in bytes {
            if byte > 0x20, byte < 0x7f, byte != UInt8(ascii: "%") {
                text.append(byte)
            } else {
                text.append(UInt8(ascii: "%"))
                Hex.append(CollectionOfOne(byte), to: &text)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The path that a printable word stands for; nil if a `%` in it is not followed by two hexadecimal digits.
    public init?(description word: some StringProtocol) {
        guard let bytes = Hex.percentDecoded(word.utf8) else { return nil }
        self.bytes = bytes
    }
}

extension VirtualPath {
    /// The path of a partition of an app: `VirtualPath(app: "my-app", partition: "notes")`.
    public init(app: String, partition: PartitionValue) { self.init(app + "/" + partition.json) }

    /// The path of the one synced file that an app of flexible sync has.
    public init(app: String) { self.init(app) }

    /// The id of the app that the path begins with; empty if the file belongs to none.
    package var app: String { String(decoding: bytes.prefix { $0 != UInt8(ascii: "/") }, as: UTF8.self) }

    /// The partition that the path ends with; nil for that of an app of flexible sync. An app's id contains no slash.
    package var partition: ArraySlice<UInt8>? {
        bytes.firstIndex(of: UInt8(ascii: "/")).map { bytes[($0 + 1)...] }
    }

    /// The path with the partition's value in its one text (`Spec/Protocol.md`, section 4.2): the name of the file that
    /// clients make, however they spell the value.
    package var canonical: VirtualPath {
        // Most texts have nothing to escape; then a path is compared with no other spelling.
        guard let partition, !PartitionValue.isPlainText(partition),
            let value = PartitionValue(extendedJSON: partition)?.bytes, value != Array(partition)
        else { return self }
        return VirtualPath(bytes[..<partition.startIndex] + value)
    }
}
