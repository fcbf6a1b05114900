/// The JSON in a BIND of flexible sync (`Spec/FlexibleSync.md`, section 1.2). Clients before 13.26 leave out members,
/// or the whole object; a missing member is 0, or nil.
public struct FlexibleBind: Equatable, Sendable {
    /// The version of the application's schema; 0 if it has none.
    public var schemaVersion: UInt64
    /// 1 for the fresh download of a client reset, and for the first session after it.
    public var sessionReason: Int
    /// The former partition value of a client that was moved from partition-based sync.
    public var migratedPartition: String?

    /// The members to send; by default those of a client without a schema version.
    public init(schemaVersion: UInt64 = 0, sessionReason: Int = 0, migratedPartition: String? = nil) {
        self.schemaVersion = schemaVersion
        self.sessionReason = sessionReason
        self.migratedPartition = migratedPartition
    }
}

// MARK: - JSON

extension FlexibleBind {
    /// The JSON as clients from 13.26 on write it.
    var json: [UInt8] {
        var json = JSONObject()
        if let migratedPartition { json.add("migratedPartition", migratedPartition) }
        json.add("schemaVersion", schemaVersion)
        json.add("sessionReason", sessionReason)
        return json.bytes
    }

    init(_ json: JSONMembers) throws(ProtocolError) {
        self.init(
            schemaVersion: json.has("schemaVersion") ? try json.unsignedNumber("schemaVersion") : 0,
            sessionReason: json.has("sessionReason") ? try json.number("sessionReason") : 0,
            migratedPartition: json.has("migratedPartition") ? try json.text("migratedPartition") : nil)
    }
}
