/// In the place of `Bytes/EncryptedPages.swift`, which needs a package that the fuzzer does not fetch: encrypted files
/// are refused before, since they come without their keys.
final class EncryptedPages {
    static let pageBytes = 4096
    let opened = UnsafeRawBufferPointer(start: nil, count: 0)

    init(_ sealed: UnsafeRawBufferPointer, key: [UInt8]) throws(RealmFileError) {
        throw RealmFileError(.keyMissing, "encrypted files are not read")
    }

    func open(_ range: Range<Int>) throws(RealmFileError) {}
}
