import CZlib

/// A changeset as the history of a file has it: after a head that states its compression (`Spec/RealmFile.md`, section
/// 5).
struct StoredChangeset {
    private enum Method: UInt8 {
        case none, deflate, lzfse
    }

    /// The head of a zlib stream: a history has raw deflate, followed by the checksum that ends such a stream.
    private static let zlibHead: [UInt8] = [0x78, 0x9C]

    private let method: Method
    private let byteCount: Int
    private let stored: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) throws(RealmFileError) {
        let head = bytes.first ?? 0, sizeBytes = Int(head & 0xF)
        guard sizeBytes <= 8, bytes.count > sizeBytes else { throw .damaged("a changeset is cut off") }
        guard let method = Method(rawValue: head >> 4) else {
            throw .damaged("a changeset is compressed with method \(head >> 4), which there is not")
        }
        let size = bytes[1..<1 + sizeBytes].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        (self.method, byteCount, stored) = (method, Int(clamping: size), bytes.dropFirst(1 + sizeBytes))
    }

    /// The changeset.
    ///
    /// - Parameter room: the bytes that changesets may still take.
    func content(_ room: inout Int) throws(RealmFileError) -> [UInt8] {
        switch method {
        case .none:
            guard stored.count == byteCount else { throw .damaged("a changeset is cut off") }
            room -= byteCount
            return Array(stored)
        case .lzfse:
            throw RealmFileError(
                .format, "a changeset is compressed with LZFSE, as on Apple systems, which is not read")
        case .deflate:
            guard byteCount <= RealmFileLimits.inflationRatioMax * stored.count else {
                throw .damaged("a changeset has more bytes than its compressed form can come to")
            }
            guard byteCount <= room else {
                throw RealmFileError(.outputLimit, "a changeset of \(byteCount) bytes, where \(max(0, room)) are left")
            }
            room -= byteCount
            return try inflated()
        }
    }

    private func inflated() throws(RealmFileError) -> [UInt8] {
        let stream = Self.zlibHead + stored
        var isWhole = false
        let content = [UInt8](unsafeUninitializedCapacity: max(1, byteCount)) { output, count in
            var outputBytes = uLongf(byteCount), inputBytes = uLong(stream.count)
            let status = uncompress2(output.baseAddress, &outputBytes, stream, &inputBytes)
            isWhole = status == Z_OK && outputBytes == byteCount && inputBytes == stream.count
            count = isWhole ? byteCount : 0
        }
        guard isWhole else { throw .damaged("a changeset does not decompress to its size and checksum") }
        return content
    }
}
