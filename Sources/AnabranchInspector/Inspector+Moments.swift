import AnabranchCore
import AnabranchHistory
import NIOHTTP1

/// Versions by time (`Spec/Explain.md`, section 4).
extension Inspector {
    /// The version that was the newest one at `time`, in milliseconds since 2015 by the server's clock; or the moment
    /// of `version`; and the moments that are known.
    func moment(_ query: PageQuery) async throws(PageError) -> String {
        let version = try query.version("version")
        let time = try query["time"].map { _ throws(PageError) in
            ChangesetTime(rawValue: try query.number("time", 0...UInt64(Int64.max)))
        }
        return try await reads.read(try query.path()) { view in
            let oldest = try view.view.oldestIntegration()
            var found = version
            if let time {
                found = try view.view.version(at: time)
                guard found != nil else {
                    throw PageError(
                        .notFound, "NoSuchVersion",
                        oldest == nil
                            ? "no times are known at which the server integrated versions"
                            : "the time is before version \(oldest?.version ?? 0), the first one whose time is known")
                }
            }
            func mark(_ version: ServerVersion?) throws -> String {
                guard let version, let time = try view.view.integrationTime(of: version) else { return "null" }
                return jsonObject([
                    "version": "\(version)", "time": "\(min(time.rawValue, UInt64(Int64.max)))",
                ])
            }
            return jsonObject([
                "path": jsonText(view.path.description), "version": found.map { "\($0)" } ?? "null",
                "moment": try mark(found), "oldest": try mark(oldest?.version), "newest": try mark(view.head.version),
            ])
        }
    }
}
