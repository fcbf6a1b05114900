public import AnabranchCore
import AnabranchHistory

/// The origin of a version: who made it, when, and with which program.
public struct Author: Equatable, Sendable {
    /// The version of the log.
    public let version: ServerVersion
    /// The client file that uploaded it; 0 if the server itself made it.
    public let client: ClientFileID
    /// The user of the client file; nil if the server did not know.
    public let user: String?
    /// When the change was made, by the clock of the device.
    public let time: ChangesetTime
    /// When the server integrated it; nil if that is not known (`FileView.integrationTime(of:)`).
    public let integrated: ChangesetTime?
    /// The client's program.
    public let uploader: Uploader

    init(of entry: LogEntry, in view: any FileView) throws(HistoryError) {
        version = entry.version
        client = entry.origin
        user = entry.origin == 0 ? nil : try view.clientFile(entry.origin)?.user
        time = entry.timestamp
        integrated = try view.integrationTime(of: entry.version)
        uploader = entry.uploader
    }

    /// The author under another name.
    init(_ author: Author, named user: String?) {
        version = author.version
        client = author.client
        self.user = user
        time = author.time
        integrated = author.integrated
        uploader = author.uploader
    }
}
