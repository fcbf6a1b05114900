import AnabranchCore
import AnabranchHistory
import AnabranchProtocol

/// Conversions from the history library to the wire. The two libraries share the values that both use (`AnabranchCore`,
/// folder `Sync`); only their errors differ.
extension ErrorCode {
    /// The only table from errors of the history to codes of the wire (`Spec/Protocol.md`, section 7.1). A failure of
    /// the server itself is always 201 and transient: a wrong code here would make clients discard their data.
    init(_ code: HistoryError.Code) {
        switch code {
        case .backlogFull: self = .connectionClosed
        case .badClientFileIdent: self = .badClientFileIdent
        case .badServerVersion: self = .badServerVersion
        case .badClientVersion: self = .badClientVersion
        case .divergingHistories: self = .divergingHistories
        case .badChangeset: self = .badChangeset
        case .badOriginFileIdent: self = .badOriginFileIdent
        case .destructiveSchemaChange, .clientTooOld: self = .invalidSchemaChange
        case .clientFileExpired: self = .clientFileExpired
        case .userMismatch: self = .userMismatch
        case .writeNotAllowed: self = .writeNotAllowed
        case .interruptedBootstrap: self = .sessionClosed
        case .storeFailed, .noRoom, .uploadPutOff, .leaseLost, .storeDamaged, .storeUnusable, .tooLarge, .conflict,
            .superseded:
            self = .otherSessionError
        }
    }
}

extension ErrorMessage {
    /// The message for a client. The reason of a transient error is for the server's log only.
    init(_ error: HistoryError) {
        self.init(ErrorCode(error.code), error.isTransient ? "" : error.reason)
        // The user of the app may see it, and can do something about it.
        if error.code == .clientTooOld { message = error.reason }
        if error.code == .storeDamaged || error.code == .uploadPutOff { backOff = .untilRepaired }
        rejection = error.refusal.map { Rejection($0, serverVersion: nil) }
        // The client keeps its changes: no reset, and no other attempt before the app opens the file again.
        if error.code == .tooLarge { (action, triesAgain) = (.applicationBug, false) }
    }
}

extension ErrorMessage {
    /// Code 231: writes that were left out, and are undone by what follows.
    init(_ write: CompensatingWrite) {
        self.init(.compensatingWrite)
        rejection = Rejection(write, serverVersion: write.version)
    }
}

extension ErrorMessage.Rejection {
    fileprivate init(_ write: CompensatingWrite, serverVersion: ServerVersion?) {
        self.init(
            clientVersion: write.clientVersion, serverVersion: serverVersion,
            updates: write.objects.map { object in
                Update(reason: object.reason, table: String(decoding: object.className, as: UTF8.self), key: object.key)
            })
    }
}

extension FlexibleDownload {
    init(_ made: ViewDownload, _ body: EncodedBody) {
        self.init(
            progress: made.download.progress, body: body, kind: made.kind, estimate: made.estimate,
            compensations: made.compensations.map { ErrorMessage($0) })
    }
}

extension BackOff {
    /// Damage stays until it is repaired: clients wait for 5 minutes at first, and for up to an hour.
    static let untilRepaired = BackOff(firstSeconds: 300, maxSeconds: 3600, multiplier: 2)
}

extension HistoryError {
    /// The error for the log: its code on the wire, and the error itself.
    var withWireCode: String { "\(ErrorCode(code).rawValue) \(self)" }
}
