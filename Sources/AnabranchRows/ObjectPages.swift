import AnabranchCore
import Foundation
import GRDB

/// The rows of objects, many in one row of the database (`Spec/State.md`, D8): to read all of a class takes a fraction
/// of the time.
///
/// A page has the objects of a class whose keys are not below its own key and below that of the next page. The first
/// page may have no key, which is below all others.
struct ObjectPages: Sendable {
    static let sql = """
        CREATE TABLE object_page (
            file INTEGER NOT NULL,
            class INTEGER NOT NULL,
            key BLOB NOT NULL,
            content BLOB NOT NULL,
            PRIMARY KEY (file, class, key)
        );
        """

    /// The largest size of the objects of a page, in bytes, unless there is only one. With everything around them they
    /// fit a page of SQLite.
    static let bytesMax = 3_900

    let file: Int64

    private struct StoredPage {
        let key: [UInt8]
        let content: [UInt8]
        let objects: PageObjects
    }

    // MARK: Writing

    /// Forgets the objects of a class; the caller has a transaction.
    func removeAll(of classID: ClassID, in db: Database) throws {
        try execute("DELETE FROM object_page WHERE file = ? AND class = ?", [file, Int64(classID.rawValue)], db)
    }

    /// Forgets all objects; the caller has a transaction.
    func removeAll(in db: Database) throws {
        try execute("DELETE FROM object_page WHERE file = ?", [file], db)
    }

    /// Carries out changes; the caller has a transaction.
    func write(_ changes: PageChanges, in db: Database) throws {
        for (classID, changes) in changes.ofClasses.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            try write(changes, of: classID, in: db)
        }
    }

    private func write(_ changes: [PageChange], of classID: ClassID, in db: Database) throws {
        let sorted = Self.sorted(changes)
        var rest = sorted[...]
        while let first = rest.first {
            let page = try page(with: first.key, of: classID, in: db)
            let next = try key(after: page.key, of: classID, in: db)
            let here = rest.prefix { change in next.map { change.key.precedes($0) } ?? true }
            rest = rest.dropFirst(here.count)
            var objects = page.objects.applying(here)
            if let next, objects.byteCount < Self.bytesMax / 4 {
                try takeNext(at: next, into: &objects, of: classID, in: db)
            }
            let isGrowing = next == nil && here.last.map { objects.objects.last?.key.elementsEqual($0.key) } == true
            let pages = objects.divided(bytesMax: Self.bytesMax, isGrowing: isGrowing)
            try store(pages, inPlaceOf: page, of: classID, in: db)
        }
    }

    /// In the order of the keys, the last change of each.
    private static func sorted(_ changes: [PageChange]) -> [PageChange] {
        let order = changes.indices.sorted { first, second in
            let (one, other) = (changes[first].key, changes[second].key)
            return one == other ? first < second : one.precedes(other)
        }
        var result: [PageChange] = []
        for index in order {
            if result.last?.key == changes[index].key { result.removeLast() }
            result.append(changes[index])
        }
        return result
    }

    /// Joins the next page to objects that leave much room, so that pages that lose their objects do not stay.
    private func takeNext(
        at key: [UInt8], into objects: inout PageObjects, of classID: ClassID, in db: Database
    ) throws {
        let next = try page(with: key, of: classID, in: db)
        guard objects.byteCount + next.objects.byteCount <= Self.bytesMax * 3 / 4 else { return }
        objects.append(next.objects)
        try remove(at: key, of: classID, in: db)
    }

    /// Stores pages in the place of an old one. A page that is as it was is not written, such as a full one that is
    /// followed by a new object.
    private func store(
        _ pages: [PageObjects], inPlaceOf old: StoredPage, of classID: ClassID, in db: Database
    ) throws {
        if pages.isEmpty { return try remove(at: old.key, of: classID, in: db) }
        let sql = """
            INSERT INTO object_page (file, class, key, content) VALUES (?, ?, ?, ?)
            ON CONFLICT (file, class, key) DO UPDATE SET content = excluded.content
            """
        for (index, page) in pages.enumerated() {
            let key = index == 0 ? old.key : Array(page.objects[0].key), content = page.content
            if index == 0, content == old.content { continue }
            try execute(sql, arguments(classID, key) + [Data(content)], db)
        }
    }

    private func remove(at key: [UInt8], of classID: ClassID, in db: Database) throws {
        let sql = "DELETE FROM object_page WHERE file = ? AND class = ? AND key = ?"
        try execute(sql, arguments(classID, key), db)
    }

    /// The page that has an object or would have it; an empty one before all keys if there is none.
    private func page(with key: [UInt8], of classID: ClassID, in db: Database) throws -> StoredPage {
        try withPage(with: key, of: classID, in: db) { key, content in
            let key = Array(key), content = Array(content)
            return StoredPage(key: key, content: content, objects: try PageObjects(content, from: key))
        } ?? StoredPage(key: [], content: [], objects: PageObjects())
    }

    /// The key of the next page.
    private func key(after key: [UInt8], of classID: ClassID, in db: Database) throws -> [UInt8]? {
        let sql = "SELECT key FROM object_page WHERE file = ? AND class = ? AND key > ? ORDER BY key LIMIT 1"
        return try Data.fetchOne(db.cachedStatement(sql: sql), arguments: arguments(classID, key)).map { Array($0) }
    }

    // MARK: Reading

    func row(of classID: ClassID, _ key: [UInt8], in db: Database) throws -> [UInt8]? {
        try withPage(with: key, of: classID, in: db) { pageKey, content in
            try PageReader(content, from: pageKey).row(of: key)
        } ?? nil
    }

    /// - Parameter keys: ascending.
    func rows(of classID: ClassID, _ keys: [[UInt8]], in db: Database) throws -> [[UInt8]?] {
        var rows: [[UInt8]?] = [], rest = keys[...]
        while let first = rest.first {
            let here =
                try withPage(with: first, of: classID, in: db) { pageKey, content in
                    try PageReader(content, from: pageKey).rows(of: rest)
                } ?? []
            // There is none with a key that is above all objects of the page where it would be.
            rows += here.isEmpty ? [nil] : here
            rest = rest.dropFirst(max(1, here.count))
        }
        return rows
    }

    /// Calls `body` with the key and the content of the page that has an object or would have it.
    /// - Returns: what `body` returns; nil if there is no such page.
    private func withPage<Value>(
        with key: [UInt8], of classID: ClassID, in db: Database,
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Value
    ) throws -> Value? {
        let sql = """
            SELECT key, content FROM object_page WHERE file = ? AND class = ? AND key <= ? ORDER BY key DESC LIMIT 1
            """
        let pages = try pages(sql, arguments(classID, key), in: db)
        return try withExtendedLifetime(pages) { try pages.next().map { try body($0.key, $0.content) } }
    }

    /// The greatest key of an object; nil if there is none.
    func greatestKey(of classID: ClassID, in db: Database) throws -> [UInt8]? {
        let sql = "SELECT key, content FROM object_page WHERE file = ? AND class = ? ORDER BY key DESC LIMIT 1"
        let pages = try pages(sql, [file, Int64(classID.rawValue)], in: db)
        return try withExtendedLifetime(pages) {
            guard let page = try pages.next() else { return nil }
            var reader = PageReader(page.content, from: page.key), last = page.key
            while let object = try reader.next() { last = object.key }
            return Array(last)
        }
    }

    func objects(
        of classID: ClassID, after key: [UInt8]?, limit: Int, in db: Database
    ) throws -> [(key: [UInt8], row: [UInt8])] {
        let sql = """
            SELECT key, content FROM object_page WHERE file = ? AND class = ? AND key >= COALESCE(
                (SELECT MAX(key) FROM object_page WHERE file = ? AND class = ? AND key <= ?), x'') ORDER BY key
            """
        let place = arguments(classID, key ?? [])
        let pages = try pages(sql, [file, Int64(classID.rawValue)] + place, in: db)
        var found: [(key: [UInt8], row: [UInt8])] = []
        while found.count < limit, let page = try pages.next() {
            var reader = PageReader(page.content, from: page.key)
            while found.count < limit, let object = try reader.next() {
                let isBehind = key.map { $0.withUnsafeBytes { object.key.order(to: $0) > 0 } } ?? true
                if isBehind { found.append((Array(object.key), Array(object.row))) }
            }
        }
        return found
    }

    func forEachObject(
        of classID: ClassID, in db: Database, _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Void
    ) throws {
        let sql = "SELECT key, content FROM object_page WHERE file = ? AND class = ? ORDER BY key"
        let pages = try pages(sql, [file, Int64(classID.rawValue)], in: db)
        while let page = try pages.next() {
            var reader = PageReader(page.content, from: page.key)
            while let object = try reader.next() { try body(object.key, object.row) }
        }
    }

    /// - Parameter sql: selects the keys and contents of pages.
    /// - Returns: pages whose bytes are valid until the next one is read, or the cursor is released.
    private func pages(
        _ sql: String, _ arguments: StatementArguments, in db: Database
    ) throws -> FastDatabaseValueCursor<BorrowedRow> {
        try BorrowedRow.fetchCursor(db.cachedStatement(sql: sql), arguments: arguments)
    }

    private func arguments(_ classID: ClassID, _ key: [UInt8]) -> StatementArguments {
        [file, Int64(classID.rawValue), Data(key)]
    }

    private func execute(_ sql: String, _ arguments: StatementArguments, _ db: Database) throws {
        try db.cachedStatement(sql: sql).execute(arguments: arguments)
    }
}
