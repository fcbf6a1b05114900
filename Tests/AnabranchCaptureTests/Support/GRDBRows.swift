import GRDB

// The rows of the tables that random writers write, as an application with GRDB has them.

struct FolderRow: Codable, FetchableRecord, PersistableRecord {
    static let databaseTableName = "folder"

    var id: Int64?
    var mark: String?
    var name: String?
}

struct ItemRow: FetchableRecord, PersistableRecord {
    static let databaseTableName = "item"

    var id: Int64?
    var mark: String?
    var code: String?
    var body: DatabaseValue
    var n: Int?
    var folder: Int64?

    init(mark: String, code: String?, body: DatabaseValue, n: Int, folder: Int64?) {
        (self.mark, self.code, self.body, self.n, self.folder) = (mark, code, body, n, folder)
    }

    init(row: Row) {
        (id, mark, code) = (row["id"], row["mark"], row["code"])
        (body, n, folder) = (row["body"], row["n"], row["folder"])
    }

    func encode(to container: inout PersistenceContainer) {
        (container["id"], container["mark"], container["code"]) = (id, mark, code)
        (container["body"], container["n"], container["folder"]) = (body, n, folder)
    }
}

struct TagRow: Codable, FetchableRecord, PersistableRecord {
    static let databaseTableName = "tag"

    var name: String
    var mark: String?
    var n: Int?
}

struct ItemTagRow: Codable, FetchableRecord, PersistableRecord {
    static let databaseTableName = "item_tag"

    var item: Int64
    var tag: String
    var mark: String?
}
