import AnabranchCore
import AnabranchHistory

/// The whole history of a file in one picture.
extension Inspector {
    /// The most parts into which a history is divided.
    static let riverPartsMax = 400
    /// The usual number of them. Each costs the server a segment of the log that is opened.
    private static let riverParts: UInt64 = 128

    /// The history divided into parts of equally many versions: the bytes of each, and its last version with its time,
    /// its author, and the version that the author had seen. One entry is read for each part, however long the history
    /// is.
    func river(_ query: PageQuery) async throws(PageError) -> String {
        let wanted = try query.number("parts", usual: Self.riverParts, 1...UInt64(Self.riverPartsMax))
        return try await reads.read(try query.path()) { view in
            let base = view.head.baseVersion.rawValue, last = view.head.version.rawValue
            let step = max(1, (last - min(base, last) + wanted - 1) / wanted)
            var size = view.head.baseCumulativeSize, parts: [String] = []
            var version = base
            while version < last {
                version = last - version > step ? version + step : last
                guard let entry = try view.view.entryWithoutChangeset(ServerVersion(rawValue: version)) else {
                    continue
                }
                parts.append(
                    jsonObject([
                        "version": "\(version)", "bytes": "\(entry.cumulativeSize - min(size, entry.cumulativeSize))",
                        "timestamp": "\(min(entry.timestamp.rawValue, UInt64(Int64.max)))",
                        "client": "\(entry.origin)", "base": entry.base.map { "\($0)" } ?? "null",
                    ]))
                size = entry.cumulativeSize
            }
            return jsonObject([
                "path": jsonText(view.path.description), "version": "\(last)", "base_version": "\(base)",
                "step": "\(step)", "parts": jsonArray(parts),
            ])
        }
    }
}
