import AnabranchProtocol
import Testing

@testable import AnabranchClient

/// The kind of an issue, which applications show to their users.
@Suite struct SyncIssueTests {
    @Test(
        arguments: [
            (.permissionDenied, .forbidden), (.badChangesetSize, .tooLarge), (.badQuery, .subscriptionRefused),
            (.clientFileExpired, .resetRequired), (.initialSyncNotCompleted, .serverError),
            (.otherSessionError, .serverError),
        ] as [(ErrorCode, SyncIssue.Kind)])
    func aRefusalHasTheKindOfItsCode(code: ErrorCode, kind: SyncIssue.Kind) {
        #expect(SyncIssue(SyncError(.refused(code), "no"), isRetrying: true).kind == kind)
    }
}
