public import AnabranchPropertyList

/// A dataclass as a device knows it: entities that refer to one another and to nothing else
/// (`Spec/OverTheAirServer.md`, section 2).
public struct DeviceDataclass: Equatable, Sendable {
    /// An entity: the names of its fields.
    public struct Entity: Equatable, Sendable {
        /// The name of the entity.
        public var name: String
        /// The fields that have values.
        public var fields: [String]
        /// The fields whose values are arrays of ids of records of the dataclass.
        public var relationships: [String]

        /// An entity; no two of its fields have one name.
        public init(name: String, fields: [String], relationships: [String] = []) {
            (self.name, self.fields, self.relationships) = (name, fields, relationships)
        }
    }

    /// The name of the dataclass.
    public var uri: String
    /// The kinds of records in it.
    public var entities: [Entity]

    /// A dataclass; no two of its entities have one name.
    public init(uri: String, entities: [Entity]) { (self.uri, self.entities) = (uri, entities) }
}

/// A record in the store of a device, with the edits that were not sent yet.
public struct DeviceRecord: Equatable, Sendable {
    /// The device's id of the record.
    public let id: String
    /// The name of its entity.
    public let entity: String
    /// The fields that have values. Relationships are arrays of ids.
    public let fields: PropertyListDictionary
}

/// The habits of a device. They belong to the device: a store is always opened with the same.
public struct DeviceOptions: Equatable, Sendable {
    /// The form in which changes are sent.
    public enum Form: String, Sendable, CaseIterable {
        /// Whole records.
        case records
        /// The fields that have changed.
        case changes
    }

    /// The form in which changes are sent.
    public var form = Form.changes
    /// True if records of others get ids of the device; false if they keep those of the server.
    public var mapsIDs = false
    /// True for messages in the binary form; false for XML.
    public var isBinary = true
    /// The most items of a message of the server; nil for no bound.
    public var itemsMax: Int?

    /// The usual options.
    public init() {}
}

/// The reason why a store of a device cannot be used, or a session has failed (`Spec/OverTheAirDevice.md`, section 4).
public struct DeviceError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of an error.
    public enum Code: Sendable {
        /// The file is not a device's store, cannot be read or written, or is damaged.
        case storeFailed
        /// A dataclass, an entity, a record or a field that is not there, or a value that cannot be sent.
        case badChange
        /// The server cannot be reached, or does not serve now. What was edited waits.
        case offline
        /// The server does not know the user.
        case unauthorized
        /// The server has ended the session, with the reason.
        case refused
        /// Another session of the same store has begun.
        case superseded
    }

    /// The kind of the error.
    public let code: Code
    /// The reason in words.
    public let reason: String

    /// The reason.
    public var description: String { reason }

    init(_ code: Code, _ reason: String) { (self.code, self.reason) = (code, reason) }
}

/// The outcome of a session.
public struct DeviceReport: Equatable, Sendable {
    /// The outcome for a dataclass.
    public struct Outcome: Equatable, Sendable {
        /// The name of the dataclass.
        public let uri: String
        /// `fast`, `slow` or `reset`.
        public let mode: String
        /// The items that were sent.
        public let sent: Int
        /// The items that have come.
        public let received: Int
        /// The items that the server has refused, with its reasons. A new record that was refused stays as it is, and
        /// is sent again once it is edited; of another one, the server's has come.
        public let refused: [String: String]
        /// Where others had changed a field that the device has changed too: by the ids of records and by fields, a
        /// dictionary with the value of the `server` that has lost, and that of the `device`; of those that there are.
        /// To choose the other value is to edit the record. Only of dataclasses whose conflicts devices decide.
        public let conflicts: PropertyListDictionary
        /// The reason why nothing, or not everything, was exchanged; nil if all was.
        public let failure: String?
        /// The reason why the server has chosen another mode than the device; nil if it has not.
        public let renegotiation: String?
    }

    /// The dataclasses, in the order in which they were named.
    public let outcomes: [Outcome]
    /// The number of messages that the device has sent.
    public let messages: Int
}
