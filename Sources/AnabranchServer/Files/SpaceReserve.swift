import AnabranchHistory
import Synchronization

/// Keeps something of the disk free, and the store within what it may hold: an operator needs it to log in and to clean
/// up, and the store to free what it need not keep. While there is no room, what makes the store larger is refused, and
/// what is there can be read.
final class SpaceReserve: Sendable {
    /// Why there is no room.
    enum Shortage: Equatable {
        /// The disk has less free than so many bytes.
        case disk(bytesMin: Int)
        /// The store has more in use than it may.
        case store(bytes: Int, bytesMax: Int)

        var reason: String {
            switch self {
            case .disk(let bytesMin): "the disk has less than \(bytesMin) bytes free"
            case .store(let bytes, let bytesMax):
                "the store has \(bytes) bytes in use, more than store-bytes (\(bytesMax))"
            }
        }
    }

    /// What the store has said last, of each what it knew.
    private struct Answer {
        var freeBytes: Int?
        var usedBytes: Int?
        var end: ContinuousClock.Instant
        var isAsked = false
    }

    private let store: any HistoryStore
    private let freeBytesMin: Int
    private let usedBytesMax: Int
    private let answerDuration: Duration
    private let answer: Mutex<Answer>

    /// - Parameters:
    ///   - freeBytesMin: what is to stay free on the disk.
    ///   - usedBytesMax: what the store may hold.
    ///   - answerDuration: how long an answer of the store counts.
    init(
        _ store: any HistoryStore, freeBytesMin: Int, usedBytesMax: Int,
        answerDuration: Duration = .milliseconds(100)
    ) {
        self.store = store
        self.freeBytesMin = freeBytesMin
        self.usedBytesMax = usedBytesMax
        self.answerDuration = answerDuration
        answer = Mutex(Answer(freeBytes: store.freeBytes, usedBytes: store.usedBytes, end: .now))
    }

    /// Nil if there is room.
    var shortage: Shortage? {
        let (freeBytes, usedBytes) = latest
        if let freeBytes, freeBytes < freeBytesMin { return .disk(bytesMin: freeBytesMin) }
        guard let usedBytes, usedBytes > usedBytesMax else { return nil }
        return .store(bytes: usedBytes, bytesMax: usedBytesMax)
    }

    /// What the decisions are made by, for metrics: without a limit nobody else asks what is in use.
    var bytes: (free: Int?, used: Int?) { (latest.free, isLimited ? latest.used : store.usedBytes) }

    private var isLimited: Bool { usedBytesMax < .max }

    /// Who finds the answer too old asks the store; others do not wait for that, and take the last one. A store that
    /// cannot answer has what it had.
    private var latest: (free: Int?, used: Int?) {
        let now = ContinuousClock.now
        let isTooOld = answer.withLock { answer in
            guard now >= answer.end, !answer.isAsked else { return false }
            answer.isAsked = true
            return true
        }
        if isTooOld {
            let freeBytes = store.freeBytes, usedBytes = isLimited ? store.usedBytes : nil
            answer.withLock { answer in
                answer = Answer(
                    freeBytes: freeBytes ?? answer.freeBytes, usedBytes: usedBytes ?? answer.usedBytes,
                    end: now + answerDuration)
            }
        }
        return answer.withLock { ($0.freeBytes, $0.usedBytes) }
    }

    /// - Throws: `storeFailed` unless there is room.
    func require() throws(HistoryError) {
        guard let shortage else { return }
        throw HistoryError(.storeFailed, "\(shortage.reason): nothing is added to the store")
    }
}
