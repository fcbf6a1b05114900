import AnabranchHistory
import Crypto
import Foundation
import GRDB

/// Contents that several views of a file can have alike (parts of bootstraps, sets, roles): kept once, under their
/// digests, while a row names them.
struct ViewContents {
    /// What is shorter is kept where it is.
    private static let bytesMin = 512

    /// Where a row keeps contents.
    enum Place {
        case here([UInt8])
        case shared(digest: Data)

        /// The contents in the row itself.
        var inRow: [UInt8] { if case .here(let bytes) = self { bytes } else { [] } }

        var digest: Data? { if case .shared(let digest) = self { digest } else { nil } }
    }

    private let file: SQLiteFile
    /// The digests of contents that were stored last, by where they are in memory: a commit has many alike.
    private var stored: [UnsafeRawPointer: (count: Int, digest: Data)] = [:]

    /// - Parameter file: within the transaction that stores one commit.
    init(of file: SQLiteFile) { self.file = file }

    /// Stores contents, which stay where they are in memory while this exists.
    mutating func store(_ bytes: [UInt8]) throws -> Place {
        guard bytes.count >= Self.bytesMin else { return .here(bytes) }
        let place = bytes.withUnsafeBytes { $0.baseAddress }
        if let place, let known = stored[place], known.count == bytes.count { return .shared(digest: known.digest) }
        let digest = Self.digest(of: bytes), arguments: StatementArguments = [file.id.number, digest]
        let known = "SELECT 1 FROM view_content WHERE file = ? AND digest = ?"
        if try file.rows(known, arguments, { _ in }).isEmpty {
            try file.execute(
                "INSERT INTO view_content (file, digest, content) VALUES (?, ?, ?)", arguments + [Data(bytes)])
        }
        if let place { stored[place] = (bytes.count, digest) }
        return .shared(digest: digest)
    }

    /// Frees contents that no row names any more.
    /// - Parameter digests: those that rows have named which are gone.
    mutating func free(_ digests: some Sequence<Data>) throws {
        for digest in Set(digests) {
            try file.execute(
                """
                DELETE FROM view_content WHERE file = ?1 AND digest = ?2
                AND NOT EXISTS (SELECT 1 FROM view_entry WHERE file = ?1 AND content = ?2)
                AND NOT EXISTS (SELECT 1 FROM client_view WHERE file = ?1 AND set_content = ?2)
                AND NOT EXISTS (SELECT 1 FROM client_view WHERE file = ?1 AND role_content = ?2)
                """, [file.id.number, digest])
            if file.db.changesCount > 0 { stored = stored.filter { $0.value.digest != digest } }
        }
    }

    static func digest(of bytes: [UInt8]) -> Data { Data(SHA256.hash(data: bytes)) }
}

extension SQLiteFile {
    /// The contents that a row names; nil if it names none.
    /// - Throws: `storeDamaged` if they are missing, or are not what was written.
    func viewContent(_ row: Row, _ column: Int) throws -> [UInt8]? {
        guard !row.hasNull(atIndex: column) else { return nil }
        let digest = Data(try row.bytes(column))
        let sql = "SELECT content FROM view_content WHERE file = ? AND digest = ?"
        let found = try rows(sql, [id.number, digest]) { try $0.bytes(0) }.first
        guard let found, ViewContents.digest(of: found) == digest else { throw damaged("contents of a view") }
        return found
    }
}
