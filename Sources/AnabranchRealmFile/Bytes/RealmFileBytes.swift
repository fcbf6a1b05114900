/// The bytes of a file, read or mapped by the caller.
public final class RealmFileBytes {
    let buffer: UnsafeRawBufferPointer
    private let release: () -> Void

    /// Takes a copy of the bytes.
    public init(_ bytes: some Collection<UInt8>) {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 8)
        copy.copyBytes(from: bytes)
        buffer = UnsafeRawBufferPointer(copy)
        release = { copy.deallocate() }
    }

    /// Takes bytes that stay in place, such as those of a mapping.
    ///
    /// - Parameter release: called when nobody reads them any more. Until then they must neither disappear nor change.
    public init(at buffer: UnsafeRawBufferPointer, release: @escaping () -> Void) {
        (self.buffer, self.release) = (buffer, release)
    }

    deinit { release() }
}

/// The file as its arrays lie in it, without encryption. Every read goes through here and stays within its bounds.
final class ClearBytes {
    let count: Int
    private let source: RealmFileBytes
    private let buffer: UnsafeRawBufferPointer
    private let pages: EncryptedPages?

    /// - Parameter key: the 64 bytes with which the file is encrypted; nil if it is not.
    init(_ source: RealmFileBytes, key: [UInt8]?) throws(RealmFileError) {
        self.source = source
        pages = try key.map { key throws(RealmFileError) in try EncryptedPages(source.buffer, key: key) }
        buffer = pages?.opened ?? source.buffer
        count = buffer.count
    }

    func bytes(at offset: Int, count: Int) throws(RealmFileError) -> UnsafeRawBufferPointer {
        guard offset >= 0, count >= 0, count <= self.count, offset <= self.count - count else {
            throw .damaged(at: offset, "\(count) bytes reach beyond the end of the file, which has \(self.count)")
        }
        try pages?.open(offset..<offset + count)
        return UnsafeRawBufferPointer(rebasing: buffer[offset..<offset + count])
    }

    /// A number of eight bytes, the lowest first.
    func word(at offset: Int) throws(RealmFileError) -> UInt64 {
        UInt64(littleEndian: try bytes(at: offset, count: 8).loadUnaligned(as: UInt64.self))
    }
}
