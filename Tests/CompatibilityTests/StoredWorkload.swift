import AnabranchCore
import AnabranchHistory
import AnabranchTesting

/// Fills a store with everything that its format has a form for: several files, clients that are behind, expired or
/// alone, changesets merged on both ways, states with every type of value, long lists, writes of the server.
///
/// Everything follows from fixed seeds and times, so two runs write equal tables. The fixture `store-format-7` holds
/// what the first of them wrote; a change here is a change of what that fixture proves.
struct StoredWorkload {
    let store: any HistoryStore

    func run() throws {
        try writeValues()
        try writeLists()
        try writeAtRandom()
        try writeAsRelay()
        _ = try open("demo/\"few\"", seed: 5).allocateIdents(for: ["5f0c2d9e8b7a6c5d4e3f2a1b"], at: 1_700_000_005)
        try writeUnprintablePath()
    }

    private func open(_ path: String, seed: UInt64, keepsState: Bool = true) throws -> SyncedFile {
        try open(VirtualPath(path), seed: seed, keepsState: keepsState)
    }

    /// Salts come from the seed; few objects stay in memory, so that rows are read back.
    private func open(_ path: VirtualPath, seed: UInt64, keepsState: Bool = true) throws -> SyncedFile {
        try SyncedFile(
            path: path, store: store, keepsState: keepsState, destructiveSchema: .allow, cachedObjectsMax: 4,
            randomness: SeededRandom(seed: seed))
    }

    /// Clients with new client files; those with odd numbers belong to nobody.
    private func clients(_ count: Int, of file: SyncedFile) throws -> [WorkloadClient] {
        let users = (0..<count).map { $0 % 2 == 0 ? "65a1b2c3d4e5f6a7b8c9d0e\($0)" : nil }
        return try file.allocateIdents(for: users, at: 1_700_000_000).map {
            WorkloadClient(ident: $0.ident, strategy: .indexed)
        }
    }

    // MARK: Values

    /// Values of all types; links whose targets are gone; conflicts of three clients, of which the third stays behind;
    /// an expired client; an erased class and columns.
    private func writeValues() throws {
        let file = try open("demo/\"values\"", seed: 1)
        var clients = try clients(5, of: file)
        try file.write(idempotencyKey: "schema", at: 1_000, StoredValues.addSchema)
        try file.write(idempotencyKey: "objects", at: 900, StoredValues.addObjects)
        try file.write(idempotencyKey: "objects", at: 5_000, StoredValues.addObjects)
        try file.write(idempotencyKey: "nothing", at: 5_000) { _ in }
        for index in clients.indices { try clients[index].download(from: file) }

        try clients[4].write(at: 6_000) { try $0.create("Int", key: 50) }
        try clients[4].upload(to: file)
        try file.expire(clients[4].ident)

        try clients[0].write(at: 7_000, StoredValues.linkToThree)
        try clients[1].write(at: 7_001, StoredValues.deleteThree)
        try clients[2].write(at: 7_002, StoredValues.conflict("third"))
        try clients[0].write(at: 7_003, StoredValues.conflict("first"))
        for index in [0, 1, 2] { try clients[index].upload(to: file) }
        for index in [0, 1] {
            try clients[index].download(from: file)
            try clients[index].write(at: ChangesetTime(rawValue: UInt64(8_000 + index)), StoredValues.editInside)
            try clients[index].upload(to: file)
        }
        try clients[0].write(at: 9_000, StoredValues.eraseSchema)
        try clients[1].write(at: 9_001, StoredValues.useErasedSchema)
        try clients[0].upload(to: file)
        try clients[1].upload(to: file)
        try file.write(idempotencyKey: "last", at: 10_000) { try $0.create("Int", key: 60)["note"] = "by the server" }
        try clients[2].write(at: 10_001, StoredValues.conflict("third again"))
        try clients[2].upload(to: file)
        try clients[3].download(from: file)
    }

    // MARK: Lists

    /// Lists that the state keeps in chunks, in columns and in a Mixed, edited in the middle by two clients at once;
    /// one that was cleared; one in a column that is erased while objects still have its chunks.
    private func writeLists() throws {
        let file = try open("demo/\"lists\"", seed: 2)
        var clients = try clients(2, of: file)
        try file.write(at: 1_000) { tx in
            try tx.addClass("Document", key: "_id", .objectID)
            for (name, type) in [("numbers", .int), ("erased", .int), ("cleared", .bool)] as [(String, PayloadType)] {
                try tx.addColumn(name, type, collection: .list, to: "Document")
            }
            try tx.addColumn("words", .string, isNullable: true, collection: .list, to: "Document")
            try tx.addColumn("free", .null, to: "Document")
            for number in 1...2 {
                let document = try tx.create("Document", key: StoredValues.objectID(UInt8(number)))
                for index in 0..<(number == 1 ? 1_300 : 513) { try document.list("numbers").append(.int(Int64(index))) }
                for _ in 0..<600 { try document.list("erased").append(7) }
                for _ in 0..<520 { try document.list("cleared").append(true) }
                try document.set("free", to: .list)
                for index in 0..<512 { try document.list("free").append(index % 5 == 0 ? .null : .double(0.5)) }
                for index in 0..<700 { try document.list("words").append(index % 9 == 0 ? .null : "w") }
            }
        }
        for index in clients.indices { try clients[index].download(from: file) }
        for index in clients.indices {
            try clients[index].write(at: ChangesetTime(rawValue: UInt64(2_000 + index))) { tx in
                let document = try StoredValues.document(1, tx)
                let numbers = try document.list("numbers")
                for place in 0..<40 {
                    try numbers.insert(.int(Int64(10_000 * (index + 1) + place)), at: 600 + 3 * place)
                }
                for place in 0..<10 { try numbers.remove(at: 900 - 7 * place) }
                try numbers.move(from: 1_200, to: 3 + index)
                try document.list("words").removeSubrange(100..<260)
                try document.list("free").insert("both", at: 0)
            }
            try clients[index].upload(to: file)
        }
        try file.write(at: 3_000) { tx in
            try StoredValues.document(1, tx).list("cleared").removeAll()
            try tx.eraseColumn("erased", of: "Document")
        }
        try file.write(at: 3_001) { try StoredValues.document(1, $0).list("numbers").append(-1) }
    }

    // MARK: Random edits

    /// Four clients that upload and download when they like, with many conflicts. The third is left behind for the last
    /// quarter, and the fourth expires before that; in between the server is started anew.
    private func writeAtRandom() throws {
        var file = try open("demo/\"random\"", seed: 3)
        var clients = try clients(4, of: file)
        try file.write(idempotencyKey: "schema", at: 1, RandomItemEdits.addSchema)
        for index in clients.indices { try clients[index].download(from: file) }
        var edits = RandomItemEdits(seed: 3)
        for step in 0..<400 as Range<UInt64> {
            if step == 200 { file = try open("demo/\"random\"", seed: 33) }
            if step == 300 { try file.expire(clients[3].ident) }
            let index = edits.random.below(step < 300 ? 4 : 2)
            switch edits.random.below(10) {
            case 0..<6: try clients[index].write(at: ChangesetTime(rawValue: 1_000 + step)) { try edits.edit($0) }
            case 6, 7: try clients[index].upload(1 + edits.random.below(3), to: file)
            case 8: try clients[index].download(from: file)
            default:
                try file.write(idempotencyKey: "step \(step)", at: ChangesetTime(rawValue: 1_000 + step)) {
                    try edits.edit($0)
                }
            }
        }
        for index in [0, 1, 2] { try clients[index].upload(to: file) }
    }

    // MARK: Relays

    /// Logs that were written without their states: one has no state to this day, one has caught up. Both hold an
    /// update of an object that nobody has made, and uploads of two clients in one commit, one with a clock far ahead.
    private func writeAsRelay() throws {
        for (path, seed) in [("demo/\"relay\"", 6), ("demo/\"caught-up\"", 7)] as [(String, UInt64)] {
            let file = try open(path, seed: seed, keepsState: false)
            let idents = try file.allocateIdents(for: ["65a1b2c3d4e5f6a7b8c9d0e0", nil], at: 1_700_000_006)
            var graph = ObjectGraph()
            let schema = try graph.write(as: idents[0].ident) { tx in
                try tx.addClass("Note", key: "_id", .int)
                try tx.addColumn("title", .string, to: "Note")
            }.changeset
            let unseen = try graph.write(as: 0) { try $0.create("Note", key: 1) }.changeset
            let update = try graph.write(as: 0) { tx in try tx.create("Note", key: 1)["title"] = "lost" }.changeset
            try enqueue([schema, update], at: 1_000, from: idents[0].ident, to: file)
            try enqueue([unseen], at: ChangesetTime(rawValue: .max), from: idents[1].ident, to: file)
            _ = try file.integrate(at: 1_700_000_007)
        }
        _ = try open("demo/\"caught-up\"", seed: 77)
    }

    private func enqueue(
        _ changesets: [[UInt8]], at timestamp: ChangesetTime, from ident: ClientFileID, to file: SyncedFile
    ) throws {
        let uploaded = zip((2 as UInt64)..., changesets).map { version, changeset in
            UploadedChangeset(
                cursor: UploadCursor(clientVersion: ClientVersion(rawValue: version), serverVersion: 0),
                timestamp: timestamp, changeset: changeset)
        }
        let progress = UploadCursor(
            clientVersion: ClientVersion(rawValue: UInt64(changesets.count + 1)), serverVersion: 0)
        try file.enqueue(Upload(progress: progress, changesets: uploaded), from: ident)
    }

    /// A path of bytes that are no text.
    private func writeUnprintablePath() throws {
        let file = try open(VirtualPath([0x64, 0x2f, 0xff, 0x00, 0x25, 0x20, 0xc3, 0xbc]), seed: 8)
        var client = try clients(1, of: file)[0]
        try client.write(at: 1) { tx in
            try tx.addClass("Empty")
            try tx.create("Empty")
        }
        try client.upload(to: file)
    }
}
