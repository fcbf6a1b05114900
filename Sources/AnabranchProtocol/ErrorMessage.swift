/// What a JSON_ERROR tells a client (`Spec/Protocol.md`, section 5.6).
public struct ErrorMessage: Error, Equatable, Sendable {
    public var code: ErrorCode
    /// Text for the application.
    public var message: String
    /// A link for the developer; may be empty.
    public var logURL = ""
    public var action: ErrorCode.Action
    /// Not fatal: the session resumes, or the connection is made again, after a delay.
    public var triesAgain: Bool
    /// Replaces the client's own delays.
    public var backOff: BackOff?

    /// The name of the code and, in parentheses, the detail; action and `triesAgain` as the table of codes advises.
    ///
    /// - Precondition: the code may be sent.
    public init(_ code: ErrorCode, _ detail: String = "") {
        precondition(code.isSendable, "\(code) must not be sent to a client")
        self.code = code
        message = detail.isEmpty ? code.name : "\(code.name) (\(detail))"
        action = code.action
        triesAgain = code.triesAgain
    }

    init(_ violation: ProtocolViolation) { self.init(violation.code, violation.reason) }

    /// Whether the client suspends the session upon it. A compensating write is news only.
    var endsSession: Bool { !code.isConnectionLevel && code != .compensatingWrite }

    /// The message as a client of this version may see it. Clients below version 7 that know no action delete their
    /// file without backup upon 206 (section 7.1), so they are told less.
    func adapted(to version: ProtocolVersion) -> ErrorMessage {
        guard code == .permissionDenied, !version.hasErrorActions, action != .deleteRealm else { return self }
        var milder = self
        milder.code = .otherSessionError
        return milder
    }

    var json: [UInt8] {
        var json = JSONObject()
        json.add("tryAgain", triesAgain)
        json.add("message", message)
        json.add("logURL", logURL)
        json.add("shouldClientReset", action.requestsClientReset)
        json.add("isRecoveryModeDisabled", action == .clientResetNoRecovery)
        json.add("action", action.rawValue)
        if let backOff {
            json.add("backoffIntervalSec", backOff.firstSeconds)
            json.add("backoffMaxDelaySec", backOff.maxSeconds)
            json.add("backoffMultiplier", backOff.multiplier)
        }
        return json.bytes
    }
}
