package import AnabranchCore

/// A changeset that a client is sent as it is in the log.
package struct LoggedEntry: Sendable, Equatable {
    package let number: UInt64
    package let version: ServerVersion
    package let clientVersion: ClientVersion
    /// How long it is.
    package let sentBytes: Int

    package init(number: UInt64, version: ServerVersion, clientVersion: ClientVersion, sentBytes: Int) {
        self.number = number
        self.version = version
        self.clientVersion = clientVersion
        self.sentBytes = sentBytes
    }
}

extension [LoggedEntry] {
    /// As a store keeps them: of each by what the numbers, the versions and the client versions have grown, and how
    /// long it is.
    package var encoded: [UInt8] {
        var writer = SegmentWriter(), last = LoggedEntry(number: 0, version: 0, clientVersion: 0, sentBytes: 0)
        for entry in self {
            writer.write(entry.number - last.number)
            writer.write(entry.version.rawValue - last.version.rawValue)
            writer.write(entry.clientVersion.rawValue - last.clientVersion.rawValue)
            writer.write(count: entry.sentBytes)
            last = entry
        }
        return writer.take()
    }

    /// - Throws: `storeDamaged`.
    package init(encoded bytes: [UInt8]) throws(HistoryError) {
        self = []
        var reader = SegmentReader(bytes, name: "a view"), number: UInt64 = 0, version: UInt64 = 0, own: UInt64 = 0
        while !reader.isAtEnd {
            number &+= try reader.number()
            version &+= try reader.number()
            own &+= try reader.number()
            append(
                LoggedEntry(
                    number: number, version: ServerVersion(rawValue: version),
                    clientVersion: ClientVersion(rawValue: own), sentBytes: try reader.count(atMost: .max)))
        }
    }
}
