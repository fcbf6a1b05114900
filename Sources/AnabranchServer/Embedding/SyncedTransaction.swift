public import AnabranchCore
import AnabranchHistory
public import Foundation

/// What one transaction has changed in a synced file, as it took effect: after it was merged with what others had done
/// before.
public struct SyncedTransaction: Equatable, Sendable {
    /// Who has made a transaction.
    public enum Author: Hashable, Sendable {
        /// The server: `SyncServer.write`, or what it undoes of a client's changes.
        case server
        /// A client's file on a device, and its user, if the server knows one.
        case client(ClientFileID, user: String?)
    }

    /// The place behind it in the log.
    public let cursor: ChangeCursor
    /// When it was made, as its author's clock says.
    public let date: Date
    /// Who has made it.
    public let author: Author
    /// The objects that it is about, each once, in the order in which it comes to them. Embedded objects belong to the
    /// objects that they are in.
    public let objects: [ChangedObject]
    /// Whether it adds or erases classes or columns. Objects that go with their class are not among `objects`.
    public let changesSchema: Bool

    /// The number of its log entry.
    public var version: ServerVersion { cursor.version }

    init(_ entry: LogEntry, user: String?) throws(HistoryError) {
        cursor = ChangeCursor(SaltedVersion(version: entry.version, salt: entry.salt))
        date = Date(timeIntervalSince1970: entry.timestamp.secondsSince1970)
        author = entry.origin == 0 ? .server : .client(entry.origin, user: user)
        var arena = ChangesetArena(), objects: [ChangedObject] = [], positions: [ObjectKeyID: Int] = [:]
        var changesSchema = false
        let changeset = try entry.decode(into: &arena)
        for instruction in arena.instructions(of: changeset) {
            guard !instruction.kind.isSchema else {
                changesSchema = true
                continue
            }
            let position = positions[instruction.object] ?? objects.count
            if position == objects.count {
                positions[instruction.object] = position
                let (className, key) = arena.primaryKey(of: instruction.object)
                objects.append(ChangedObject(className: Self.text(arena.bytes(of: className)), key: key))
            }
            switch instruction.kind {
            case .createObject: objects[position].change = .inserted
            case .eraseObject: objects[position].change = .deleted
            default: objects[position].note(field: Self.text(arena.bytes(of: instruction.field)))
            }
        }
        self.objects = objects
        self.changesSchema = changesSchema
    }

    private static func text(_ name: ArraySlice<UInt8>) -> String { String(decoding: name, as: UTF8.self) }
}

/// What a transaction has done with an object.
public struct ChangedObject: Equatable, Sendable {
    /// What has become of an object.
    public enum Change: Equatable, Sendable {
        /// It was created. If another client had created one with the same key before, it is that one, and its fields
        /// have new values now.
        case inserted
        /// Some of its fields were written, each named once.
        case modified(fields: [String])
        /// It was deleted.
        case deleted
    }

    /// The name of its class.
    public let className: String
    /// Its primary key: `UUID(key: object.key)`.
    public let key: PrimaryKey
    /// What has become of it.
    public fileprivate(set) var change = Change.modified(fields: [])

    fileprivate mutating func note(field: String) {
        guard case .modified(let fields) = change, !fields.contains(field) else { return }
        change = .modified(fields: fields + [field])
    }
}
