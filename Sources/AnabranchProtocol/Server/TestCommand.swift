import AnabranchCore

/// The effect of a TEST_COMMAND (`Spec/FlexibleSync.md`, section 1.6). Only applications that are built for tests send
/// it; commands that the server does not know count as done.
struct TestCommand: Equatable, Sendable {
    private static let done = Array("{}".utf8)

    /// The answer.
    var answer = TestCommand.done
    /// An error that ends the session after the answer.
    var error: ErrorMessage?

    /// `ECHO_ERROR` names a code and the JSON of an error, as text.
    init(_ body: [UInt8], _ limits: Limits) {
        guard limits.echoesErrors, let command = try? JSONValue(parsing: body), command["command"] == "ECHO_ERROR"
        else { return }
        guard let code = command["args"]?["errorCode"]?.integer, 200..<300 ~= code,
            let text = command["args"]?["errorBody"]?.string, let json = try? JSONValue(parsing: text.utf8)
        else {
            answer = Array(#"{"error":"not an error that ends a session"}"#.utf8)
            return
        }
        var error = ErrorMessage(.otherSessionError)
        error.code = ErrorCode(rawValue: Int(code))
        error.message = json["message"]?.string ?? error.code.name
        error.logURL = json["logURL"]?.string ?? ""
        error.action = json["action"]?.string.flatMap { ErrorCode.Action(rawValue: $0) } ?? error.code.action
        error.triesAgain = json["tryAgain"]?.bool ?? error.code.triesAgain
        self.error = error
    }
}
