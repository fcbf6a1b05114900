import AnabranchHistory
import AnabranchProtocol
import Metrics
import Testing

@testable import AnabranchServer

@Suite struct WireConversionTests {
    private static let refusals: [HistoryError.Code] = [
        .badClientFileIdent, .badServerVersion, .badClientVersion, .divergingHistories, .badChangeset,
        .badOriginFileIdent, .clientFileExpired, .userMismatch,
    ]
    private static let storeFailures: [HistoryError.Code] = [
        .storeFailed, .uploadPutOff, .leaseLost, .storeDamaged, .storeUnusable,
    ]

    /// A client that was told anything else would throw away what it has not uploaded yet.
    @Test(arguments: storeFailures) func aFailureOfTheStoreIsTransient(code: HistoryError.Code) {
        let error = HistoryError(code, "the disk is full")
        #expect(error.isStoreFailure && error.isTransient)
        let message = ErrorMessage(error)
        #expect(message.code == .otherSessionError && message.action == .transient && message.triesAgain)
        #expect(!message.message.contains("disk"), "the reason is for the server's log")
        #expect(error.withWireCode == "201 \(code): the disk is full")
    }

    /// The file stays open, and the operator is told of it once.
    @Test func aFullDiskIsTransientAndNoFailureOfTheStore() {
        let error = HistoryError(.noRoom, "the disk is full"), message = ErrorMessage(error)
        #expect(!error.isStoreFailure && error.isTransient)
        #expect(message.code == .otherSessionError && message.action == .transient && message.triesAgain)
        let log = LogLines()
        FileLog(metrics: SyncMetrics(factory: NOOPMetricsHandler.instance), logger: log.logger)
            .write(error, path: VirtualPath("/a"))
        #expect(log.text.isEmpty)
    }

    @Test(arguments: [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (256 << 20, "256.0 MiB"), (80 << 30, "80.0 GiB"),
        (.max, "8.0 EiB"),
    ])
    func bytesArePrintedForPeople(_ bytes: Int, _ text: String) { #expect(bytes.inBytes == text) }

    /// Only what a person has to do something about keeps a client away for minutes.
    @Test func damageAndUploadsThatArePutOffAskForALongDelay() {
        let delayed = Self.storeFailures.filter { ErrorMessage(HistoryError($0, "")).backOff != nil }
        #expect(delayed == [.uploadPutOff, .storeDamaged])
    }

    /// Neither reset, in whose course the client would upload the same again, nor repeated.
    @Test func whatIsTooLargeStaysWithItsClient() {
        let message = ErrorMessage(HistoryError(.tooLarge, "why"))
        #expect(message.code == .otherSessionError && message.action == .applicationBug && !message.triesAgain)
        #expect(message.message == "session error (why)")
    }

    @Test func aFullBacklogEndsTheConnectionForAWhile() {
        let error = HistoryError(.backlogFull, "")
        #expect(!error.isStoreFailure && error.isTransient)
        #expect(ErrorMessage(error).code == .connectionClosed && ErrorMessage(error).triesAgain)
    }

    @Test func everyRefusalEndsTheSessionWithACodeOfItsOwn() {
        let codes = Self.refusals.map { ErrorCode($0).rawValue }
        #expect(codes == [208, 209, 210, 211, 212, 216, 222, 223])
        for code in Self.refusals {
            let error = HistoryError(code, "why")
            #expect(!error.isStoreFailure && !error.isTransient)
            #expect(ErrorMessage(error).message.contains("why"))
        }
    }
}
