public import AnabranchCore

/// 128 bits that tell damaged records from whole ones: SipHash-2-4 with a 128-bit result, keyed with the checksum of
/// the record before. So a log's checksums form a chain, in which the last one vouches for every entry
/// (`Spec/Durability.md`). The function must never change: its values are stored.
public struct Checksum: Equatable, Sendable {
    /// The first eight bytes.
    public var low: UInt64
    /// The last eight bytes.
    public var high: UInt64

    /// Creates a checksum from its two words.
    public init(low: UInt64, high: UInt64) {
        self.low = low
        self.high = high
    }

    /// Takes the bytes as they are stored; nil unless there are 16 of them.
    public init?(bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        low = SipHash128.word(of: bytes[..<8])
        high = SipHash128.word(of: bytes[8...])
    }

    /// Little-endian, the low word first.
    public var bytes: [UInt8] {
        withUnsafeBytes(of: (low.littleEndian, high.littleEndian)) { Array($0) }
    }

    /// The start of a file's chain.
    public init(startOf path: VirtualPath) {
        self = Checksum(low: 0, high: 0).keyed([], path.bytes)
    }

    /// The next link of the chain.
    public func following(_ entry: LogEntry) -> Checksum {
        let link = keyed(
            [
                entry.version.rawValue, entry.salt.rawValue, entry.origin.rawValue, entry.clientVersion.rawValue,
                entry.timestamp.rawValue, entry.cumulativeSize, entry.base == nil ? 0 : 1,
                entry.base?.rawValue ?? 0, entry.uploader.release, entry.uploader.protocolVersion,
            ], entry.changeset)
        return entry.section.isEmpty ? link : link.keyed([], entry.section)
    }

    /// The checksum of a client file, keyed with the start of its file's chain.
    public func covering(_ file: ClientFile) -> Checksum {
        let user = file.user.map { Array($0.utf8) }
        return keyed(
            [
                file.ident.rawValue, file.salt.rawValue, file.uploadCursor.clientVersion.rawValue,
                file.uploadCursor.serverVersion.rawValue, file.lockedVersion.rawValue, file.lastSeen,
                file.isExpired ? 1 : 0, file.lineage.rawValue, file.baseClientVersion.rawValue,
                file.newestReceipt?.version.rawValue ?? 0, file.newestReceipt?.clientVersion.rawValue ?? 0,
                user == nil ? 0 : 1,
            ], user ?? [])
    }

    /// The checksum of a reciprocal changeset, keyed with the start of its file's chain.
    public func covering(_ change: ReciprocalChange) -> Checksum {
        keyed([change.ident.rawValue, change.reciprocal.version.rawValue], change.reciprocal.changeset)
    }

    /// The checksum of a changeset that is kept as it was received, keyed with the start of its file's chain.
    public func covering(_ received: ReceivedChangeset) -> Checksum {
        keyed([received.version.rawValue, received.time], received.changeset)
    }

    /// The checksum of a changeset as a client file has uploaded it, keyed with the start of its file's chain.
    public func covering(_ uploaded: UploadedChangeset, from ident: ClientFileID) -> Checksum {
        keyed([ident.rawValue, uploaded.cursor.clientVersion.rawValue], uploaded.changeset)
    }

    package func keyed(_ words: [UInt64], _ bytes: [UInt8]) -> Checksum { keyed(words, bytes[...]) }

    package func keyed(_ words: [UInt64], _ bytes: ArraySlice<UInt8>) -> Checksum {
        var hash = SipHash128(key: (low, high))
        for word in words { hash.add(word) }
        let result = hash.finish(with: bytes)
        return Checksum(low: result.low, high: result.high)
    }
}

/// SipHash-2-4 with 128 bits of result (Aumasson and Bernstein).
struct SipHash128 {
    private var v0, v1, v2, v3: UInt64
    private var byteCount = 0

    init(key: (low: UInt64, high: UInt64)) {
        v0 = key.low ^ 0x736f_6d65_7073_6575
        v1 = key.high ^ 0x646f_7261_6e64_6f6d ^ 0xee
        v2 = key.low ^ 0x6c79_6765_6e65_7261
        v3 = key.high ^ 0x7465_6462_7974_6573
    }

    /// Adds eight bytes, the lowest first.
    mutating func add(_ word: UInt64) {
        compress(word)
        byteCount += 8
    }

    /// Adds the last bytes and ends.
    mutating func finish(with bytes: ArraySlice<UInt8>) -> (low: UInt64, high: UInt64) {
        let wordsEnd = bytes.count & ~7
        bytes.withUnsafeBytes { buffer in
            for offset in stride(from: 0, to: wordsEnd, by: 8) {
                compress(UInt64(littleEndian: buffer.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
            }
        }
        let rest = SipHash128.word(of: bytes.suffix(bytes.count - wordsEnd))
        compress(rest | UInt64(truncatingIfNeeded: byteCount + bytes.count) << 56)
        v2 ^= 0xee
        for _ in 0..<4 { round() }
        let low = v0 ^ v1 ^ v2 ^ v3
        v1 ^= 0xdd
        for _ in 0..<4 { round() }
        return (low, v0 ^ v1 ^ v2 ^ v3)
    }

    /// Up to eight bytes as a number, the first being the lowest.
    static func word(of bytes: ArraySlice<UInt8>) -> UInt64 {
        var word: UInt64 = 0
        var shift: UInt64 = 0
        for byte in bytes {
            word |= UInt64(byte) << shift
            shift += 8
        }
        return word
    }

    private mutating func compress(_ word: UInt64) {
        v3 ^= word
        round()
        round()
        v0 ^= word
    }

    private mutating func round() {
        v0 &+= v1
        v1 = (v1 << 13 | v1 >> 51) ^ v0
        v0 = v0 << 32 | v0 >> 32
        v2 &+= v3
        v3 = (v3 << 16 | v3 >> 48) ^ v2
        v0 &+= v3
        v3 = (v3 << 21 | v3 >> 43) ^ v0
        v2 &+= v1
        v1 = (v1 << 17 | v1 >> 47) ^ v2
        v2 = v2 << 32 | v2 >> 32
    }
}
