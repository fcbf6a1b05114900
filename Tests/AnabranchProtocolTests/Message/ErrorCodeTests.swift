import AnabranchCore
import Foundation
import Testing

@testable import AnabranchProtocol

@Suite struct ErrorCodeTests {
    @Test func theTableHasEveryCodeOfTheProtocol() {
        #expect(ErrorCode.known.map(\.rawValue) == Array(100...114) + Array(200...236))
        #expect(Set(ErrorCode.known.map(\.name)).count == ErrorCode.known.count)
    }

    /// Codes that abort the client, that nobody knows any more, and those of flexible sync.
    @Test func dangerousCodesAreNeverSent() {
        let unsendable = ErrorCode.known.filter { !$0.isSendable }.map(\.rawValue)
        #expect(
            unsendable
                == [104, 202, 203, 205, 207, 213, 214, 215, 218, 219, 220, 221, 224, 232, 234, 235, 236])
    }

    @Test func actionsFollowTheTable() {
        func codes(_ action: ErrorCode.Action) -> [Int] {
            ErrorCode.known.filter { $0.isSendable && $0.action == action }.map(\.rawValue)
        }
        #expect(codes(.transient) == [100, 101, 200, 201, 229])
        #expect(codes(.warning) == [227, 231])
        #expect(codes(.protocolViolation) == [102, 103, 105, 106, 107, 108, 109, 110, 111, 112, 216])
        #expect(codes(.applicationBug) == [113, 114, 204, 206, 223, 225, 226])
        #expect(codes(.clientReset) == [208, 209, 210, 211, 212, 217, 222, 228, 233])
        // To write the same again would be refused again.
        #expect(codes(.clientResetNoRecovery) == [230])
        #expect(codes(.deleteRealm).isEmpty)
    }

    @Test func onlyHopelessClientsAreShutOut() {
        let final = ErrorCode.known.filter { $0.isConnectionLevel && !$0.triesAgain }
        #expect(final == [.wrongProtocolVersion, .switchToFlexibleSync, .switchToPartitionSync])
        let again = ErrorCode.known.filter { !$0.isConnectionLevel && $0.isSendable && $0.triesAgain }
        #expect(again.map(\.rawValue) == [200, 201, 227, 229, 231])
    }

    @Test func everyErrorMessageHasTheSixBaseKeysAndAgreesWithItself() throws {
        for code in ErrorCode.known where code.isSendable {
            let json = try decode(ErrorMessage(code, "detail").json(in: .realm))
            #expect(
                json.keys.sorted() == [
                    "action", "isRecoveryModeDisabled", "logURL", "message", "shouldClientReset", "tryAgain",
                ])
            #expect(json["message"] as? String == "\(code.name) (detail)")
            #expect(json["logURL"] as? String == "")
            #expect(json["action"] as? String == code.action.rawValue)
            #expect(json["tryAgain"] as? Bool == code.triesAgain)
            #expect(
                json["shouldClientReset"] as? Bool
                    == [.clientReset, .clientResetNoRecovery].contains(code.action))
            #expect(json["isRecoveryModeDisabled"] as? Bool == (code == .writeNotAllowed))
        }
    }

    @Test func aResetWithoutRecoverySaysSoToOldClientsToo() throws {
        var error = ErrorMessage(.badClientFile)
        error.action = .clientResetNoRecovery
        let json = try decode(error.json(in: .realm))
        #expect(json["action"] as? String == "ClientResetNoRecovery")
        #expect(json["shouldClientReset"] as? Bool == true)
        #expect(json["isRecoveryModeDisabled"] as? Bool == true)
    }

    @Test func theBytesOfAnErrorAreTheseOnes() {
        var error = ErrorMessage(.compensatingWrite)
        error.logURL = "https://logs.example/7"
        error.backOff = BackOff(firstSeconds: 1, maxSeconds: 300, multiplier: 2)
        error.rejection = ErrorMessage.Rejection(
            clientVersion: 12, serverVersion: 9,
            updates: [
                .init(reason: "no", table: "Dog", primaryKey: "AAE="),
                .init(reason: "never", table: "Cat", primaryKey: "AAI="),
            ])
        #expect(
            text(error.json(in: .realm)) == """
                {"tryAgain":true,"message":"compensating write","logURL":"https://logs.example/7",\
                "shouldClientReset":false,"isRecoveryModeDisabled":false,"action":"Warning",\
                "backoffIntervalSec":1,"backoffMaxDelaySec":300,"backoffMultiplier":2,\
                "rejectedUpdates":[{"reason":"no","table":"Dog","pk":"AAE="},\
                {"reason":"never","table":"Cat","pk":"AAI="}],\
                "rejectedClientVersion":12,"compensatingWriteServerVersion":9}
                """)
    }

    @Test func anyTextSurvivesJSON() throws {
        let controls = String(String.UnicodeScalarView((0...0x21).compactMap(Unicode.Scalar.init)))
        for message in ["", "\"\\/", controls, "\u{7F}\u{2028}é👩‍👩‍👧e\u{301}\u{10FFFF}", "\r\n", "\"\u{301}"] {
            var error = ErrorMessage(.otherSessionError)
            error.message = message
            let decoded = try #require(try decode(error.json(in: .realm))["message"] as? String)
            #expect(Array(decoded.utf8) == Array(message.utf8))
        }
    }

    @Test func aLogMessageHasOnlyTheKeysItNeeds() {
        #expect(text(LogMessage(connectionIdent: "7f").json) == #"{"level":"info","co_id":"7f"}"#)
        #expect(text(LogMessage(level: .warn, message: "slow").json) == #"{"msg":"slow","level":"warn"}"#)
    }

    private func decode(_ json: [UInt8]) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(json)) as? [String: Any])
    }
}
