import AnabranchCore
import CZlib

/// A sync message taken apart: the words of its head, and its body.
struct SyncMessage: Equatable, CustomStringConvertible {
    var words: [String]
    var body: [UInt8]

    init(words: [String], body: [UInt8] = []) {
        self.words = words
        self.body = body
    }

    init(_ bytes: [UInt8]) {
        let end = bytes.firstIndex(of: UInt8(ascii: "\n")) ?? bytes.endIndex
        words = String(decoding: bytes[..<end], as: UTF8.self).split(separator: " ", omittingEmptySubsequences: false)
            .map(String.init)
        body = Array(bytes[min(end + 1, bytes.endIndex)...])
    }

    var bytes: [UInt8] { Array(words.joined(separator: " ").utf8) + [UInt8(ascii: "\n")] + body }

    var kind: String { words[0] }

    var numbers: [UInt64] { words.dropFirst().map { UInt64($0) ?? 0 } }

    var description: String { "\(words.joined(separator: " ")) (\(body.count) bytes)" }
}

/// A DOWNLOAD as a client reads it.
struct ReceivedDownload: Equatable, CustomStringConvertible {
    var progress: DownloadProgress
    var entries: [DownloadedChangeset]

    /// - Returns: nil if the message is not a well-formed DOWNLOAD.
    init?(_ message: SyncMessage) {
        let fields = message.numbers
        guard message.kind == "download", fields.count == 11 else { return nil }
        progress = DownloadProgress(
            cursor: DownloadCursor(serverVersion: ServerVersion(fields[1]), clientVersion: ClientVersion(fields[2])),
            latest: SaltedVersion(version: ServerVersion(fields[3]), salt: Salt(fields[4])),
            upload: UploadCursor(clientVersion: ClientVersion(fields[5]), serverVersion: ServerVersion(fields[6])),
            downloadableBytes: fields[7])
        let isCompressed = fields[8] == 1
        guard let body = isCompressed ? inflated(message.body, to: Int(fields[9])) : message.body,
            body.count == fields[9], isCompressed ? message.body.count == fields[10] : fields[10] == 0,
            let entries = ReceivedDownload.entries(of: body)
        else { return nil }
        self.entries = entries
    }

    private static func entries(of body: [UInt8]) -> [DownloadedChangeset]? {
        var entries: [DownloadedChangeset] = []
        var rest = body[...]
        while !rest.isEmpty {
            var fields: [UInt64] = []
            for _ in 0..<6 {
                guard let space = rest.firstIndex(of: 0x20),
                    let field = UInt64(String(decoding: rest[..<space], as: UTF8.self))
                else { return nil }
                fields.append(field)
                rest = rest[(space + 1)...]
            }
            guard fields[5] <= rest.count else { return nil }
            entries.append(
                DownloadedChangeset(
                    cursor: DownloadCursor(
                        serverVersion: ServerVersion(fields[0]), clientVersion: ClientVersion(fields[1])),
                    tag: OriginTag(timestamp: ChangesetTime(fields[2]), ident: ClientFileID(fields[3])),
                    changeset: Array(rest.prefix(Int(fields[5]))), originalBytes: Int(fields[4])))
            rest = rest.dropFirst(Int(fields[5]))
        }
        return entries
    }

    var description: String {
        let entries = entries.map { entry in
            "\(entry.cursor.serverVersion):\(entry.cursor.clientVersion):\(entry.tag.ident):\(entry.changeset.count)"
        }
        let cursor = progress.cursor, upload = progress.upload
        return "download to \(cursor.serverVersion) \(cursor.clientVersion), latest \(progress.latest.version), "
            + "upload \(upload.clientVersion) \(upload.serverVersion), \(progress.downloadableBytes) to come, "
            + "entries \(entries.joined(separator: " "))"
    }
}

/// The content of a zlib stream; nil if it is not a whole one of exactly this many bytes.
func inflated(_ bytes: [UInt8], to count: Int) -> [UInt8]? {
    var size = uLongf(count)
    var sourceSize = uLong(bytes.count)
    let result = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
        let status = uncompress2(buffer.baseAddress, &size, bytes, &sourceSize)
        filled = status == Z_OK ? Int(size) : 0
    }
    return result.count == count && sourceSize == bytes.count ? result : nil
}

/// The bytes as a zlib stream.
func deflated(_ bytes: [UInt8]) -> [UInt8] {
    var size = compressBound(uLong(bytes.count))
    return [UInt8](unsafeUninitializedCapacity: Int(size)) { buffer, filled in
        compress(buffer.baseAddress, &size, bytes, uLong(bytes.count))
        filled = Int(size)
    }
}
