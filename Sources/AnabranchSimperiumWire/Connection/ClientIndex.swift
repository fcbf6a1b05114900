import AnabranchCore

/// The copies of a client as it describes them: their versions, and how many changes wait.
struct ClientIndex {
    private(set) var versions: [ExactString: UInt64] = [:]
    let pendingCount: Int

    /// - Returns: nil if it is not an index, or has too many values. Clients write entities as `{"id","v"}` or as
    /// `{KEY: version}`.
    init?(_ text: String) {
        guard let json = try? JSONValue(parsing: text.utf8, valuesMax: Change.valuesMax),
            let entries = json["index"]?.array
        else { return nil }
        for entry in entries {
            if let key = entry["id"]?.string, let version = Self.version(entry["v"]) {
                versions[ExactString(key)] = version
            } else {
                for (name, value) in entry.members ?? [:] {
                    if let version = Self.version(value) { versions[ExactString(name.text)] = version }
                }
            }
        }
        let pending = json["pending"] ?? json["pendings"]
        pendingCount = pending?.array?.count ?? pending?.members?.count ?? 0
    }

    private static func version(_ value: JSONValue?) -> UInt64? {
        value?.integer.flatMap { UInt64(exactly: $0) } ?? value?.string.flatMap { UInt64($0) }
    }
}
