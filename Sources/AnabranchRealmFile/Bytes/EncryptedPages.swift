import Crypto
import CryptoExtras

/// An encrypted file: blocks of a page of entries and up to 64 pages of data (`Spec/RealmFile.md`, section 3).
///
/// A page is decrypted when something in it is read; pages without an array may be damaged.
final class EncryptedPages {
    static let pageBytes = 4096
    static let keyBytes = 64
    private static let pagesPerBlock = 64
    private static let entryBytes = 64

    /// The data, one page after the other. Pages that have not been opened have no meaningful content.
    let opened: UnsafeRawBufferPointer
    private let target: UnsafeMutableRawBufferPointer
    private let sealed: UnsafeRawBufferPointer
    private let cipherKey: SymmetricKey
    private let macKey: [UInt8]
    private var isOpen: [Bool]

    init(_ sealed: UnsafeRawBufferPointer, key: [UInt8]) throws(RealmFileError) {
        guard key.count == Self.keyBytes else {
            throw RealmFileError(.wrongKey, "a key has \(Self.keyBytes) bytes, and this one has \(key.count)")
        }
        guard sealed.count >= 2 * Self.pageBytes else {
            throw RealmFileError(.truncated, "\(sealed.count) bytes are too few for an encrypted Realm file")
        }
        let (blocks, rest) = (sealed.count / Self.pageBytes).quotientAndRemainder(dividingBy: Self.pagesPerBlock + 1)
        let pageCount = blocks * Self.pagesPerBlock + max(0, rest - 1)
        target = .allocate(byteCount: pageCount * Self.pageBytes, alignment: Self.pageBytes)
        opened = UnsafeRawBufferPointer(target)
        isOpen = [Bool](repeating: false, count: pageCount)
        cipherKey = SymmetricKey(data: Array(key.prefix(32)))
        macKey = Array(key.suffix(32))
        self.sealed = sealed
    }

    deinit { target.deallocate() }

    /// Decrypts the pages of a range that are not decrypted yet.
    func open(_ range: Range<Int>) throws(RealmFileError) {
        guard !range.isEmpty else { return }
        for page in range.lowerBound / Self.pageBytes...(range.upperBound - 1) / Self.pageBytes where !isOpen[page] {
            try open(page)
            isOpen[page] = true
        }
    }

    private func open(_ page: Int) throws(RealmFileError) {
        let block = page / Self.pagesPerBlock * (Self.pagesPerBlock + 1), slot = page % Self.pagesPerBlock
        let start = (block + 1 + slot) * Self.pageBytes, offset = page * Self.pageBytes
        let entryStart = block * Self.pageBytes + slot * Self.entryBytes
        let entry = Array(sealed[entryStart..<entryStart + Self.entryBytes])
        let content = Array(sealed[start..<start + Self.pageBytes])
        guard entry.prefix(4).contains(where: { $0 != 0 }) else {
            throw page == 0 ? Self.wrongKey : .damaged(at: offset, "the page was never written")
        }
        // The second pair is of the write before: it counts if the entry was written, but the page was not.
        let mac = HMACSHA224.code(of: content, key: macKey)
        let number =
            if entry[4..<32].elementsEqual(mac) {
                entry[..<4]
            } else if entry[32..<36].contains(where: { $0 != 0 }), entry[36...].elementsEqual(mac) {
                entry[32..<36]
            } else {
                throw page == 0
                    ? Self.wrongKey : .damaged(at: offset, "the page is not what was encrypted with this key")
            }
        let vector = number + (0..<8).map { UInt8(truncatingIfNeeded: offset >> (8 * $0)) } + [0, 0, 0, 0]
        do {
            let clear = try AES._CBC.decrypt(
                content, using: cipherKey, iv: try AES._CBC.IV(ivBytes: vector), noPadding: true)
            UnsafeMutableRawBufferPointer(rebasing: target[offset..<offset + Self.pageBytes]).copyBytes(from: clear)
        } catch {
            throw .damaged(at: offset, "the page cannot be decrypted: \(error)")
        }
    }

    private static let wrongKey = RealmFileError(
        .wrongKey, "the key is not that of the file, or its first page is damaged, or it is not an encrypted Realm file"
    )
}
