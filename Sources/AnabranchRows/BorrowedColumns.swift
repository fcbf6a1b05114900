package import GRDB
import GRDBSQLite

/// The columns of a row, where SQLite has them until the next one is read. A `Row`, which knows their names, takes
/// longer to make than a dozen of them take to be read.
package struct BorrowedColumns: DatabaseValueConvertible, StatementColumnConvertible {
    private let statement: SQLiteStatement

    package init(sqliteStatement: SQLiteStatement, index: CInt) { statement = sqliteStatement }

    /// The name of a column, for errors.
    package func name(_ index: Int) -> String {
        sqlite3_column_name(statement, CInt(index)).map { String(cString: $0) } ?? ""
    }

    /// An integer; nil if the column has another type.
    package func integer(_ index: Int) -> Int64? {
        let index = CInt(index)
        return sqlite3_column_type(statement, index) == SQLITE_INTEGER ? sqlite3_column_int64(statement, index) : nil
    }

    /// The bytes of a blob; nil if the column has another type.
    package func blob(_ index: Int) -> [UInt8]? {
        let index = CInt(index)
        guard sqlite3_column_type(statement, index) == SQLITE_BLOB else { return nil }
        let start = sqlite3_column_blob(statement, index)
        return Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, index))))
    }

    /// Only statements have such rows.
    package var databaseValue: DatabaseValue { .null }
    package static func fromDatabaseValue(_ value: DatabaseValue) -> BorrowedColumns? { nil }
}
