public import AnabranchCore

/// One entry of a synced file's log (`Spec/History.md`, section 2.2). Entries never change after their commit.
public struct LogEntry: Equatable, Sendable {
    /// The server version that the entry produced; the first is 1.
    public var version: ServerVersion
    /// Proves that two parties mean the same version.
    public var salt: Salt
    /// The client file that uploaded the changeset; 0 if the server itself made it.
    public var origin: ClientFileID
    /// The version that the changeset produced on the uploading client; 0 for the server's own entries.
    public var clientVersion: ClientVersion
    /// When the changeset was made, as received and never corrected.
    public var timestamp: ChangesetTime
    /// The sum of the changeset sizes up to and including this entry, in bytes.
    public var cumulativeSize: UInt64
    /// The transformed changeset, encoded; no bytes if no instruction survived.
    public var changeset: [UInt8]
    /// The version on which the changeset was made, as its client has uploaded it; nil if the server itself made it, or
    /// it is older than these records.
    public var base: ServerVersion?
    /// The program of the client, as it has identified itself.
    public var uploader: Uploader
    /// Fields with a tag each (`Spec/Durability.md`, section 3).
    public var section: [UInt8]

    /// Creates an entry, new or read from a store.
    public init(
        version: ServerVersion, salt: Salt, origin: ClientFileID, clientVersion: ClientVersion,
        timestamp: ChangesetTime, cumulativeSize: UInt64, changeset: [UInt8], base: ServerVersion? = nil,
        uploader: Uploader = .unknown, section: [UInt8] = []
    ) {
        self.version = version
        self.salt = salt
        self.origin = origin
        self.clientVersion = clientVersion
        self.timestamp = timestamp
        self.cumulativeSize = cumulativeSize
        self.changeset = changeset
        self.base = base
        self.uploader = uploader
        self.section = section
    }

    /// The origin as it is sent on the wire and as the merge rules see it: never 0.
    public var originOnWire: ClientFileID { origin == 0 ? .server : origin }

    /// The size of the changeset and the section, in bytes.
    package var byteCount: Int { changeset.count + section.count }

    /// The same entry with an empty changeset.
    package var withoutChangeset: LogEntry {
        var entry = self
        entry.changeset = []
        return entry
    }

    /// When and where the changeset was made, as the merge rules see it.
    public var tag: OriginTag { OriginTag(timestamp: timestamp, ident: originOnWire) }
}

/// A log entry in its form for one client file, after a merge with changes of that client (`Spec/History.md`, section
/// 2.3). An empty changeset is not the same as no reciprocal changeset.
public struct ReciprocalChangeset: Equatable, Sendable {
    /// The version of the log entry.
    public var version: ServerVersion
    /// The changeset in the form for the client, encoded.
    public var changeset: [UInt8]

    /// Creates the form of a log entry for one client file.
    public init(version: ServerVersion, changeset: [UInt8]) {
        self.version = version
        self.changeset = changeset
    }
}

/// The changeset of a log entry as its client has uploaded it, where merging has changed it. Stores keep it for some
/// time, to explain the merge.
public struct ReceivedChangeset: Equatable, Sendable {
    /// The version of the log entry.
    public var version: ServerVersion
    /// When it was integrated, in seconds since 1970.
    public var time: UInt64
    /// The changeset, encoded.
    public var changeset: [UInt8]

    /// Creates the record of a changeset that merging has changed.
    public init(version: ServerVersion, time: UInt64, changeset: [UInt8]) {
        self.version = version
        self.time = time
        self.changeset = changeset
    }
}

/// Links a log entry to the changeset of a client that it holds.
public struct Receipt: Equatable, Sendable {
    /// The version of the log entry.
    public var version: ServerVersion
    /// The version that its changeset produced on the client.
    public var clientVersion: ClientVersion

    /// Creates the receipt for a changeset in the log.
    public init(version: ServerVersion, clientVersion: ClientVersion) {
        self.version = version
        self.clientVersion = clientVersion
    }
}

/// A conflict key that a log entry writes, as an index keeps it: an upload that reads the key has to be merged with the
/// entry (`Spec/History.md`, section 15).
public struct ConflictKeyEntry: Equatable, Sendable {
    /// The key: one of `ConflictKeys.writes`.
    public var key: UInt64
    /// The log entry that writes it.
    public var version: ServerVersion
    /// The entry's origin: an upload is not merged with entries of its own client.
    public var origin: ClientFileID

    /// Creates a key of the index.
    public init(key: UInt64, version: ServerVersion, origin: ClientFileID) {
        self.key = key
        self.version = version
        self.origin = origin
    }
}
