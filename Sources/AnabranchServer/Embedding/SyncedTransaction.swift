public import AnabranchCore
import AnabranchHistory
public import Foundation
import OrderedCollections

/// The changes of one transaction in a synced file, as they took effect: after merging with the earlier changes of
/// others.
public struct SyncedTransaction: Equatable, Sendable {
    /// The author of a transaction.
    public enum Author: Hashable, Sendable {
        /// The server, by `SyncServer.write` or by undoing a client's changes.
        case server
        /// A client's file on a device, and the client's user, if the server knows one.
        case client(ClientFileID, user: String?)
    }

    /// The place after the transaction in the log.
    public let cursor: ChangeCursor
    /// The time of the transaction by its author's clock.
    public let date: Date
    /// The author of the transaction.
    public let author: Author
    /// The changed objects, each once, in the order in which the transaction first names them. Embedded objects belong
    /// to the objects that they are in.
    public let objects: [ChangedObject]
    /// True if the transaction adds or erases classes or columns. Objects that go with their class are not among
    /// `objects`.
    public let changesSchema: Bool

    /// The number of the transaction's log entry.
    public var version: ServerVersion { cursor.version }

    init(_ entry: LogEntry, user: String?) throws(HistoryError) {
        cursor = ChangeCursor(SaltedVersion(version: entry.version, salt: entry.salt))
        date = Date(timeIntervalSince1970: entry.timestamp.secondsSince1970)
        author = entry.origin == 0 ? .server : .client(entry.origin, user: user)
        var arena = ChangesetArena(), objects: [ChangedObject] = [], positions: [ObjectKeyID: Int] = [:]
        var fields: [OrderedSet<NameID>] = [], changesSchema = false
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
                fields.append([])
            }
            switch instruction.kind {
            case .createObject: objects[position].change = .inserted
            case .eraseObject: objects[position].change = .deleted
            default: fields[position].append(instruction.field)
            }
        }
        for (position, names) in fields.enumerated() {
            objects[position].record(names.map { Self.text(arena.bytes(of: $0)) })
        }
        self.objects = objects
        self.changesSchema = changesSchema
    }

    private static func text(_ name: ArraySlice<UInt8>) -> String { String(decoding: name, as: UTF8.self) }
}

/// An object that a transaction has changed.
public struct ChangedObject: Equatable, Sendable {
    /// The kind of a change.
    public enum Change: Equatable, Sendable {
        /// The object was created. If another client had created one with the same key before, the two are one, and its
        /// fields have new values now.
        case inserted
        /// Some fields of the object were written, each named once.
        case modified(fields: [String])
        /// The object was deleted.
        case deleted
    }

    /// The name of the object's class.
    public let className: String
    /// The object's primary key. `UUID(key: object.key)` reads it if it is a UUID.
    public let key: PrimaryKey
    /// The change of the object.
    public fileprivate(set) var change = Change.modified(fields: [])

    /// Adds what was done to the object afterwards.
    mutating func goOn(with later: Change) {
        switch later {
        case .inserted, .deleted: change = later
        case .modified(let fields): record(fields)
        }
    }

    /// Adds fields that were written. Those that look alike are two.
    fileprivate mutating func record(_ fields: [String]) {
        guard case .modified(let known) = change else { return }
        var names = Set(known.map { ExactString($0) })
        change = .modified(fields: known + fields.filter { names.insert(ExactString($0)).inserted })
    }
}
