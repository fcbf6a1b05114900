import AnabranchCore
import Testing

@testable import AnabranchProtocol

/// The tables of `Spec/Protocol.md`, sections 2.3, 5.6 and 7.1, row by row.
@Suite struct ClientReactionTests {
    @Test(
        arguments: [
            (1000, .retry(isReported: false)), (1001, .retry(isReported: true)), (1002, .retry(isReported: true)),
            (1003, .retry(isReported: true)), (1004, .retry(isReported: true)), (1005, .retry(isReported: true)),
            (1006, .refreshUser), (1007, .retry(isReported: true)), (1008, .retry(isReported: true)),
            (1009, .clientReset(isRecoveryAllowed: true)), (1010, .retry(isReported: true)),
            (1011, .retry(isReported: false)), (1015, .retry(isReported: true)), (4001, .refreshUser),
            (4002, .logOutUser), (4003, .refreshLocation), (4400, .retry(isReported: true)),
            (4405, .retry(isReported: true)), (0, .retry(isReported: true)), (65535, .retry(isReported: true)),
        ] as [(UInt16, ClientReaction)])
    func closeCodes(code: UInt16, reaction: ClientReaction) {
        #expect(ConnectionEnd.closeCode(code).reaction(isRouteVerified: true) == reaction)
        #expect(ConnectionEnd.closeCode(code).reaction(isRouteVerified: false) == reaction)
    }

    @Test(
        arguments: [
            (500, .retry(isReported: false)), (503, .retry(isReported: false)), (401, .refreshUser), (403, .logOutUser),
            (301, .refreshLocation), (308, .refreshLocation), (302, .retry(isReported: false)),
            (404, .retry(isReported: true)), (410, .retry(isReported: true)), (400, .retry(isReported: true)),
            (200, .retry(isReported: true)), (0, .retry(isReported: true)),
        ] as [(Int, ClientReaction)])
    func statuses(status: Int, reaction: ClientReaction) {
        #expect(ConnectionEnd.status(status).reaction(isRouteVerified: true) == reaction)
        let isAboutTheRoute = [0, 200, 400, 404, 410].contains(status)
        #expect(
            ConnectionEnd.status(status).reaction(isRouteVerified: false)
                == (isAboutTheRoute ? .refreshLocation : reaction))
    }

    @Test(
        arguments: [
            (.transient, true, .retry(isReported: false)), (.transient, false, .stop),
            (.warning, true, .retry(isReported: true)), (.warning, false, .stop), (.applicationBug, true, .stop),
            (.applicationBug, false, .stop), (.protocolViolation, false, .stop),
            (.clientReset, false, .clientReset(isRecoveryAllowed: true)),
            (.clientResetNoRecovery, false, .clientReset(isRecoveryAllowed: false)), (.deleteRealm, false, .deleteFile),
            (.refreshUser, true, .refreshUser), (.refreshLocation, true, .refreshLocation),
            (.logOutUser, false, .logOutUser), (.migrateToFlexibleSync, false, .stop),
            (.revertToPartitionSync, false, .stop), (.migrateSchema, false, .stop),
        ] as [(ErrorCode.Action, Bool, ClientReaction)])
    func actions(action: ErrorCode.Action, triesAgain: Bool, reaction: ClientReaction) {
        let error = ErrorMessage(received: .otherError, action: action, triesAgain: triesAgain)
        #expect(error.reaction == reaction)
        #expect(ConnectionEnd.failed(error).reaction(isRouteVerified: true) == reaction)
    }

    @Test(arguments: [200, 208, 212, 217, 222, 225, 228, 229] as [Int])
    func whatOurServerSendsDoesWhatTheTableSays(code: Int) {
        let error = ErrorMessage(ErrorCode(rawValue: code))
        switch code {
        case 200, 229: #expect(error.reaction == .retry(isReported: false))
        case 225: #expect(error.reaction == .stop)
        default: #expect(error.reaction == .clientReset(isRecoveryAllowed: true))
        }
    }

    @Test func anUnknownActionIsAnApplicationBug() throws {
        let json =
            #"{"tryAgain":true,"message":"m","logURL":"","shouldClientReset":true,"#
            + #""isRecoveryModeDisabled":false,"action":"Dance"}"#
        let message = bytes("json_error 299 \(json.utf8.count) 1\n\(json)")
        guard case .error(_, let error) = try ServerMessageCodec().decode(message) else {
            Issue.record("no error")
            return
        }
        #expect(error.reaction == .stop)
    }
}
