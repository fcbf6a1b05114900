import AnabranchHistory
import AnabranchProtocol

/// What the history library says, in the words of the wire. The two libraries share the values that both speak of
/// (`AnabranchCore`, folder `Sync`); only their errors differ.
extension ErrorCode {
    /// The one table from errors of the history to codes of the wire (`Spec/Protocol.md`, section 7.1). Trouble of the
    /// server's own is always 201, which is transient: a wrong code here would make clients discard their data.
    init(_ code: HistoryError.Code) {
        switch code {
        case .backlogFull: self = .connectionClosed
        case .badClientFileIdent: self = .badClientFileIdent
        case .badServerVersion: self = .badServerVersion
        case .badClientVersion: self = .badClientVersion
        case .divergingHistories: self = .divergingHistories
        case .badChangeset: self = .badChangeset
        case .badOriginFileIdent: self = .badOriginFileIdent
        case .clientFileExpired: self = .clientFileExpired
        case .userMismatch: self = .userMismatch
        case .storeFailed, .leaseLost, .storeDamaged, .storeUnusable: self = .otherSessionError
        }
    }
}

extension ErrorMessage {
    /// The message for a client. The reason of a transient error is for the server's log only.
    init(_ error: HistoryError) {
        self.init(ErrorCode(error.code), error.isTransient ? "" : error.reason)
    }
}

extension HistoryError {
    /// For the log: the error as clients are told it, and as it is.
    var withWireCode: String { "\(ErrorCode(code).rawValue) \(self)" }
}
