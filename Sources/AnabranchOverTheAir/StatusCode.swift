/// The numbers of outcomes (`Spec/OverTheAir.md`, section 2).
package enum StatusCode: Int, CaseIterable, Sendable {
    case ok = 200
    case notCompleted = 202
    case multiStatus = 207
    case badRequest = 400
    case notAllowed = 403
    case notFound = 404
    case badValue = 406
    case stateError = 409
    case missingParam = 410
    case paramError = 411
    case unknownCommand = 412
    case commandNotProcessed = 413
    case limitExceeded = 414
    case versionNotSupported = 415
    case negotiationFailed = 416
    case notSupported = 417
    case failed = 418
    case canceled = 419
    case serviceError = 500
    case serviceBusy = 503
    case serviceUnavailable = 504
    case retryLater = 505

    /// The name on the wire, as `E_BadValue`.
    package var name: String {
        switch self {
        case .ok: "S_OK"
        case .notCompleted: "E_NotCompleted"
        case .multiStatus: "S_MultiStatus"
        case .badRequest: "E_BadRequest"
        case .notAllowed: "E_NotAllowed"
        case .notFound: "E_NotFound"
        case .badValue: "E_BadValue"
        case .stateError: "E_StateError"
        case .missingParam: "E_MissingParam"
        case .paramError: "E_ParamError"
        case .unknownCommand: "E_UnknownCommand"
        case .commandNotProcessed: "E_CommandNotProcessed"
        case .limitExceeded: "E_LimitExceeded"
        case .versionNotSupported: "E_VersionNotSupported"
        case .negotiationFailed: "E_NegotiationFailed"
        case .notSupported: "E_NotSupported"
        case .failed: "E_Failed"
        case .canceled: "E_Canceled"
        case .serviceError: "E_ServiceError"
        case .serviceBusy: "E_ServiceBusy"
        case .serviceUnavailable: "E_ServiceUnavailable"
        case .retryLater: "E_RetryLater"
        }
    }

    /// The consequence of a status.
    package enum Effect: Sendable {
        /// None: it has succeeded.
        case none
        /// The status proper comes later in the session.
        case waits
        /// This command alone has failed.
        case commandFails
        /// The start has failed, and may come again in the session.
        case startFails
        /// The dataclass is rolled back, and takes no further commands.
        case dataclassEnds
        /// All dataclasses are rolled back to their last checkpoints.
        case sessionEnds
    }

    /// The effect in the response to a command of the sync family.
    package var syncEffect: Effect {
        switch self {
        case .ok, .multiStatus: .none
        case .notCompleted: .waits
        case .commandNotProcessed: .commandFails
        case .negotiationFailed: .startFails
        case .badRequest, .serviceError, .serviceBusy, .serviceUnavailable, .retryLater: .sessionEnds
        default: .dataclassEnds
        }
    }
}
