import AnabranchCore

/// Errors 231 whose version has not come yet (`Spec/FlexibleSync.md`, section 2.7).
struct CompensatingWrites: Sendable {
    private var errors: [ErrorMessage] = []
    private var byteCount = 0

    /// Keeps an error until its version is integrated.
    ///
    /// - Throws: if it names no version, or one before that of an earlier error, or an object without a valid key; or
    ///   if the errors together are too long.
    mutating func hold(_ error: ErrorMessage, _ limits: Limits) throws(ProtocolError) {
        guard let rejection = error.rejection, let version = rejection.serverVersion else {
            throw ProtocolError(.badSyntax, "json_error: a compensating write without its version")
        }
        guard version >= errors.last?.rejection?.serverVersion ?? 0 else {
            throw ProtocolError(
                .badMessageOrder, "json_error: compensating write \(version) after that of a newer one")
        }
        guard rejection.updates.allSatisfy({ $0.key != nil }) else {
            throw ProtocolError(.badSyntax, "json_error: a compensating write of an object without a key")
        }
        byteCount += error.byteCount
        guard byteCount <= limits.compensatingWriteBytesMax else {
            throw ProtocolError(.badSyntax, "json_error: too many compensating writes without their changesets")
        }
        errors.append(error)
    }

    /// Releases the errors whose versions are integrated.
    ///
    /// - Returns: the errors to report to the application now.
    mutating func release(through version: ServerVersion) -> [ErrorMessage] {
        let end = errors.firstIndex { $0.rejection?.serverVersion ?? 0 > version } ?? errors.endIndex
        let released = Array(errors[..<end])
        errors.removeSubrange(..<end)
        byteCount -= released.reduce(0) { $0 + $1.byteCount }
        return released
    }
}

extension ErrorMessage {
    /// The approximate memory that it takes, in bytes.
    fileprivate var byteCount: Int {
        let updates = rejection?.updates ?? []
        return updates.reduce(MemoryLayout<Self>.size + message.utf8.count + logURL.utf8.count) { count, update in
            count + MemoryLayout<Rejection.Update>.size + update.reason.utf8.count + update.table.utf8.count
                + update.primaryKey.utf8.count
        }
    }
}
