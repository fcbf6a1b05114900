import AnabranchCore
import AnabranchHistory
import AnabranchServer
import ServiceLifecycle

/// Keeps the field `words` of each note as its text wants it, whoever changes that: what a trigger does.
struct WordCounter: Service {
    static let team = VirtualPath(app: "notes", partition: "team")
    /// No client may open it.
    private static let program = VirtualPath(app: "notes", partition: "program")

    let server: SyncServer

    func run() async throws {
        try await server.listening()
        try await declare()
        var start: ChangeCursor? = try await server.read(Self.program) { state in
            let stored: String? = try state.object("Progress", key: 1)?["cursor"]
            return stored.flatMap { ChangeCursor($0) } ?? .beginning
        }
        while let cursor = start { start = try await follow(from: cursor) }
    }

    /// Follows the changes until the program ends.
    /// - Returns: where to go on if the log has forgotten what follows the cursor; nil at the end.
    private func follow(from cursor: ChangeCursor) async throws -> ChangeCursor? {
        do {
            for try await transaction in server.changes(in: Self.team, after: cursor).cancelOnGracefulShutdown() {
                for note in transaction.objects where note.className == "Note" && note.isNew(of: "text") {
                    try await count(note.key)
                }
                try await store(transaction.cursor)
            }
            return nil
        } catch is SyncServerError {
            let (keys, cursor) = try await server.read(Self.team) { state in
                (try state.objects("Note").compactMap(\.key), state.cursor)
            }
            for key in keys { try await count(key) }
            return cursor
        }
    }

    /// The classes, which are made at the first start and stay as they are at the others.
    private func declare() async throws {
        try await server.write(to: Self.team) { tx in
            try tx.addClass("Note", key: "_id", .uuid)
            try tx.addColumn("text", .string, to: "Note")
            try tx.addColumn("words", .int, to: "Note")
        }
        try await server.write(to: Self.program) { tx in
            try tx.addClass("Progress", key: "_id", .int)
            try tx.addColumn("cursor", .string, isNullable: true, to: "Progress")
            if try tx.object("Progress", key: 1) == nil { _ = try tx.create("Progress", key: 1) }
        }
    }

    /// Reads and writes in one transaction, so no change of a client comes between the two.
    private func count(_ key: PrimaryKey) async throws {
        try await server.write(to: Self.team) { tx in
            guard let note = try tx.object("Note", key: key) else { return }
            let text: String = note["text"] ?? ""
            note["words"] = text.split(separator: " ").count
        }
    }

    /// If the program ends before, it counts once more at its next start, which changes nothing.
    private func store(_ cursor: ChangeCursor) async throws {
        try await server.write(to: Self.program) { tx in
            try tx.object("Progress", key: 1)?["cursor"] = cursor.description
        }
    }
}

extension ChangedObject {
    /// True if it was created, or has another value in a field.
    fileprivate func isNew(of field: String) -> Bool {
        switch change {
        case .inserted: true
        case .modified(let fields): fields.contains(field)
        case .deleted: false
        }
    }
}
