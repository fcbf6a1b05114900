import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import NIOHTTP1

@testable import AnabranchServer

/// The facts in a transcript about the recorded server's logs.
enum RecordedHistory {
    /// One version of a log: whose changeset it was.
    struct Step: Equatable {
        let ident: ClientFileID
        let clientVersion: ClientVersion
    }

    private struct Conversation {
        var uploads: [ClientFileID: Set<ClientVersion>] = [:]
        var downloads: [(ident: ClientFileID, download: ReceivedDownload)] = []
    }

    /// The order in which uploads were integrated, for each partition value. The DOWNLOADs say whose most versions
    /// were; of a version that nobody was sent, the cursors do.
    static func orders(in transcript: Transcript) -> [[UInt8]: [Step]] {
        conversations(in: transcript).mapValues(order)
    }

    private static func conversations(in transcript: Transcript) -> [[UInt8]: Conversation] {
        struct Key: Hashable { let connection: Int, session: UInt64 }
        var sessions: [Key: (partition: [UInt8], ident: ClientFileID)] = [:]
        var result: [[UInt8]: Conversation] = [:]
        for line in transcript.lines where line.kind == "binary" {
            let message = line.message
            let key = Key(connection: line.connection, session: message.numbers.first ?? 0)
            switch (message.kind, line.isFromClient) {
            case ("bind", true):
                sessions[key] = (Array(message.body.prefix(Int(message.numbers[1]))), 0)
            case ("ident", true):
                sessions[key]?.ident = ClientFileID(message.numbers[1])
            case ("upload", true):
                guard let session = sessions[key],
                    case .upload(_, let upload) = try? ClientMessageCodec().decode(message.bytes)
                else { continue }
                for entry in upload.upload.changesets {
                    result[session.partition, default: Conversation()].uploads[session.ident, default: []]
                        .insert(entry.cursor.clientVersion)
                }
            case ("download", false):
                guard let session = sessions[key], let download = ReceivedDownload(message) else { continue }
                result[session.partition, default: Conversation()].downloads.append((session.ident, download))
            default: break
            }
        }
        return result
    }

    private static func order(_ conversation: Conversation) -> [Step] {
        var known: [ServerVersion: ClientFileID] = [:]
        for (_, download) in conversation.downloads {
            for entry in download.entries { known[entry.cursor.serverVersion] = entry.tag.ident }
        }
        var waiting = conversation.uploads.mapValues { $0.sorted()[...] }
        let newest = conversation.downloads.map(\.download.progress.latest.version.rawValue).max() ?? 0
        var steps: [Step] = []
        while steps.count < newest {
            let version = ServerVersion(steps.count + 1)
            guard let ident = known[version] ?? uploader(of: version, conversation, waiting),
                let clientVersion = waiting[ident]?.popFirst()
            else { return steps }
            steps.append(Step(ident: ident, clientVersion: clientVersion))
        }
        return steps
    }

    /// The client that uploaded a version that nobody was sent: the first DOWNLOAD to its client that reaches it covers
    /// that client's next upload.
    private static func uploader(
        of version: ServerVersion, _ conversation: Conversation,
        _ waiting: [ClientFileID: ArraySlice<ClientVersion>]
    ) -> ClientFileID? {
        let fits = waiting.compactMap { ident, rest -> (reached: ServerVersion, ident: ClientFileID)? in
            let covering = conversation.downloads.filter { $0.ident == ident }.map(\.download.progress.cursor)
                .filter { $0.serverVersion >= version }
                .map { ($0.serverVersion, $0.clientVersion) }.min { $0 < $1 }
            guard let next = rest.first, let covering, covering.1 >= next else { return nil }
            return (covering.0, ident)
        }
        return fits.min { $0 < $1 }?.ident
    }
}
