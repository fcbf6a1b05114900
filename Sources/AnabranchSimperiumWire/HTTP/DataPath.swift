import AnabranchCore

/// The path of a request for data: `/1/APP/BUCKET/…` (`Spec/Simperium.md`, section 12).
struct DataPath: Equatable {
    enum Target: Equatable {
        case index
        case changes
        /// The changes of all users that the token stands for.
        case all
        case entity(key: String, version: UInt64?)
    }

    let app: String
    let bucket: String
    let target: Target

    /// - Parameter path: with its percent-encoding, of which each part is freed once.
    /// - Returns: nil if it is no such path.
    init?(_ path: String) {
        var parts: [String] = []
        for part in path.utf8.split(separator: UInt8(ascii: "/")) {
            guard let bytes = Hex.percentDecoded(part), let text = String(validating: bytes, as: UTF8.self) else {
                return nil
            }
            parts.append(text)
        }
        guard parts.count >= 4, parts[0] == "1" else { return nil }
        app = parts[1]
        bucket = parts[2]
        switch (parts[3], parts.count) {
        case ("index", 4): target = .index
        case ("changes", 4): target = .changes
        case ("all", 4): target = .all
        case ("i", 5): target = .entity(key: parts[4], version: nil)
        case ("i", 7) where parts[5] == "v":
            guard let version = UInt64(parts[6]), version > 0 else { return nil }
            target = .entity(key: parts[4], version: version)
        default: return nil
        }
    }
}
