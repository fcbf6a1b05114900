import AnabranchHistory
import Synchronization

/// Keeps some space of the disk free, and the store within its limit: an operator needs space to log in and to clean
/// up, and the store to free what it need not keep. While there is no room, everything that makes the store larger is
/// refused, but its contents can be read.
final class SpaceReserve: Sendable {
    /// The reason why there is no room.
    enum Shortage: Equatable {
        /// The disk has less free than it must have, in bytes.
        case disk(path: String, free: Int, bytesMin: Int)
        /// The store has more in use than it may.
        case store(bytes: Int, bytesMax: Int)

        var reason: String {
            switch self {
            case .disk(let path, let free, let bytesMin):
                "\(free.inBytes) are free at \(path), and free-bytes wants \(bytesMin.inBytes)"
            case .store(let bytes, let bytesMax):
                "the databases have \(bytes.inBytes) in use, and store-bytes allows \(bytesMax.inBytes)"
            }
        }
    }

    /// The last answers of the store: of each figure the last that it knew.
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
    ///   - freeBytesMin: the space that is to stay free on the disk, in bytes.
    ///   - usedBytesMax: the space that the store may have in use, in bytes.
    ///   - answerDuration: the time for which an answer of the store counts.
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

    /// The present shortage; nil if there is room.
    var shortage: Shortage? {
        let (freeBytes, usedBytes) = latest
        if let freeBytes, freeBytes < freeBytesMin {
            return .disk(path: store.location ?? "the disk", free: freeBytes, bytesMin: freeBytesMin)
        }
        guard let usedBytes, usedBytes > usedBytesMax else { return nil }
        return .store(bytes: usedBytes, bytesMax: usedBytesMax)
    }

    /// The figures that the decisions depend on, for metrics: without a limit, nobody else asks for the space in use.
    var bytes: (free: Int?, used: Int?) { (latest.free, isLimited ? latest.used : store.usedBytes) }

    private var isLimited: Bool { usedBytesMax < .max }

    /// The latest figures. A caller that finds them too old asks the store; others do not wait for that, and take the
    /// last ones. If the store cannot answer, the old figures stay.
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

    /// - Throws: `noRoom` unless there is room.
    func require() throws(HistoryError) {
        guard let shortage else { return }
        throw HistoryError(.noRoom, "\(shortage.reason): nothing is added to the store")
    }
}
