import AnabranchHistory
import Crypto
import Foundation
import GRDB

/// Contents that several views of a file can have alike (parts of bootstraps, sets, roles): kept once, under their
/// digests, while a row names them.
struct ViewContents {
    /// The size from which contents are kept here, in bytes; shorter ones stay in their rows.
    private static let bytesMin = 512

    /// The place where a row keeps contents.
    enum Place {
        case here([UInt8])
        case shared(digest: Data)

        /// The contents in the row itself.
        var inRow: [UInt8] { if case .here(let bytes) = self { bytes } else { [] } }

        var digest: Data? { if case .shared(let digest) = self { digest } else { nil } }
    }

    private let file: SQLiteFile
    /// The digests of changesets that views have in common (`ViewShare.id`): many changesets of a commit are alike.
    private var stored: [UInt64: Data] = [:]

    /// - Parameter file: within the transaction that stores one commit.
    init(of file: SQLiteFile) { self.file = file }

    /// Stores contents.
    /// - Parameter share: the identity of a changeset that other views may have got as well.
    mutating func store(_ bytes: [UInt8], sharedAs share: ViewShare? = nil) throws -> Place {
        guard bytes.count >= Self.bytesMin else { return .here(bytes) }
        if let known = share.flatMap({ stored[$0.id] }) { return .shared(digest: known) }
        let digest = Self.digest(of: bytes), arguments: StatementArguments = [file.id.number, digest]
        let known = "SELECT 1 FROM view_content WHERE file = ? AND digest = ?"
        if try file.rows(known, arguments, { _ in }).isEmpty {
            try file.execute(
                "INSERT INTO view_content (file, digest, content) VALUES (?, ?, ?)",
                arguments + [try PackedContent.stored(bytes, from: PackedContent.viewBytesMin)])
        }
        if let share { stored[share.id] = digest }
        return .shared(digest: digest)
    }

    /// Frees contents that no row names any more.
    /// - Parameter digests: the digests named by rows that are gone.
    mutating func free(_ digests: some Sequence<Data>) throws {
        for digest in Set(digests) {
            try file.execute(
                """
                DELETE FROM view_content WHERE file = ?1 AND digest = ?2
                AND NOT EXISTS (SELECT 1 FROM view_entry WHERE file = ?1 AND content = ?2)
                AND NOT EXISTS (SELECT 1 FROM client_view WHERE file = ?1 AND set_content = ?2)
                AND NOT EXISTS (SELECT 1 FROM client_view WHERE file = ?1 AND role_content = ?2)
                """, [file.id.number, digest])
            if file.db.changesCount > 0 { stored = stored.filter { $0.value != digest } }
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
        let found = try rows(sql, [id.number, digest]) { try $0.content(0) }.first
        guard let found, ViewContents.digest(of: found) == digest else { throw damaged("contents of a view") }
        return found
    }
}
