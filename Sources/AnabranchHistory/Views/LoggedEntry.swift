package import AnabranchCore

/// A changeset that a client is sent as it is in the log.
package struct LoggedEntry: Sendable, Equatable {
    package let number: UInt64
    package let version: ServerVersion
    package let clientVersion: ClientVersion
    /// The size of the changeset, in bytes.
    package let sentBytes: Int

    package init(number: UInt64, version: ServerVersion, clientVersion: ClientVersion, sentBytes: Int) {
        self.number = number
        self.version = version
        self.clientVersion = clientVersion
        self.sentBytes = sentBytes
    }
}

extension [LoggedEntry] {
    /// The entries as a store keeps them: their count, and for all of them the increments of the numbers, the versions
    /// and the client versions, and the sizes, each value with the number of its repetitions.
    package var encoded: [UInt8] {
        var writer = SegmentWriter()
        writer.write(count: count)
        let numbers = map(\.number), versions = map(\.version.rawValue), own = map(\.clientVersion.rawValue)
        for column in [numbers, versions, own] {
            writer.write(repeats: zip(column, [0] + column).map { $0 - $1 })
        }
        writer.write(repeats: map { UInt64($0.sentBytes) })
        return writer.take()
    }

    /// - Throws: `storeDamaged`.
    package init(encoded bytes: [UInt8]) throws(HistoryError) {
        var reader = SegmentReader(bytes, name: "a view")
        let count = try reader.count(atMost: ViewProjection.logBytesMax)
        var columns: [[UInt64]] = []
        for _ in 0..<4 { columns.append(try reader.repeats(of: count)) }
        try reader.requireEnd()
        var number: UInt64 = 0, version: UInt64 = 0, own: UInt64 = 0
        self = (0..<count).map { index in
            number &+= columns[0][index]
            version &+= columns[1][index]
            own &+= columns[2][index]
            return LoggedEntry(
                number: number, version: ServerVersion(rawValue: version),
                clientVersion: ClientVersion(rawValue: own), sentBytes: Int(clamping: columns[3][index]))
        }
    }
}
