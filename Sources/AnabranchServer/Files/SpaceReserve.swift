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
        /// The store has more than so many bytes in use.
        case store(bytesMax: Int)

        var reason: String {
            switch self {
            case .disk(let bytesMin): "the disk has less than \(bytesMin) bytes free"
            case .store(let bytesMax): "the store has more than \(bytesMax) bytes"
            }
        }
    }

    /// How long an answer of the store counts.
    private static let answerDuration = Duration.milliseconds(100)

    private let store: any HistoryStore
    private let freeBytesMin: Int
    private let usedBytesMax: Int
    private let answer = Mutex((shortage: Shortage?.none, end: ContinuousClock.now))

    /// - Parameters:
    ///   - freeBytesMin: what is to stay free on the disk.
    ///   - usedBytesMax: what the store may hold.
    init(_ store: any HistoryStore, freeBytesMin: Int, usedBytesMax: Int) {
        self.store = store
        self.freeBytesMin = freeBytesMin
        self.usedBytesMax = usedBytesMax
    }

    /// Nil if there is room.
    var shortage: Shortage? {
        let now = ContinuousClock.now
        return answer.withLock { answer in
            if now >= answer.end { answer = (look(), now + Self.answerDuration) }
            return answer.shortage
        }
    }

    private func look() -> Shortage? {
        if let free = store.freeBytes, free < freeBytesMin { return .disk(bytesMin: freeBytesMin) }
        guard usedBytesMax < .max, let used = store.usedBytes, used > usedBytesMax else { return nil }
        return .store(bytesMax: usedBytesMax)
    }

    /// - Throws: `storeFailed` unless there is room.
    func require() throws(HistoryError) {
        guard let shortage else { return }
        throw HistoryError(.storeFailed, "\(shortage.reason): nothing is added to the store")
    }
}
