import AnabranchHistory
import Synchronization

/// Keeps something of the disk free: an operator needs it to log in and to clean up, and the store to free what it need
/// not keep. While there is less, what makes the store larger is refused, and what is there can be read.
final class SpaceReserve: Sendable {
    /// How long an answer of the file system counts.
    private static let answerDuration = Duration.milliseconds(100)

    private let store: any HistoryStore
    private let bytesMin: Int
    private let answer = Mutex((isLow: false, end: ContinuousClock.now))

    /// - Parameter bytesMin: what is to stay free.
    init(_ store: any HistoryStore, bytesMin: Int) {
        self.store = store
        self.bytesMin = bytesMin
    }

    /// Whether there is less.
    var isLow: Bool {
        let now = ContinuousClock.now
        return answer.withLock { answer in
            if now >= answer.end {
                answer = (store.freeBytes.map { $0 < bytesMin } ?? false, now + Self.answerDuration)
            }
            return answer.isLow
        }
    }

    /// - Throws: `storeFailed` while there is less.
    func require() throws(HistoryError) {
        guard isLow else { return }
        throw HistoryError(.storeFailed, "the disk has less than \(bytesMin) bytes free: nothing is added to the store")
    }
}
