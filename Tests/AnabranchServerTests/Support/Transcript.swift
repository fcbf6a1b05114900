import AnabranchTesting
import Foundation

extension Transcript {
    /// - Parameter name: of a file in `Transcripts`, without the suffix.
    init(_ name: String) throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        try self.init(path: folder.appending(path: "Transcripts/\(name).jsonl.gz").path)
    }
}

extension Transcript.Line {
    /// A binary WebSocket message.
    var message: SyncMessage { SyncMessage(words: words, body: body) }
}
