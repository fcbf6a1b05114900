import Synchronization

/// Lets messages with changes of one file in, as long as they are not too long together: what is read of a message
/// takes many times its bytes, until its changes are decided on.
final class ChangeAdmission: Sendable {
    /// The bytes of the messages that are let in together. One alone may have more.
    static let bytesMax = 1 << 20
    /// The bytes of the messages that wait to be let in.
    static let waitingBytesMax = 16 << 20

    private struct State {
        var bytes = 0
        var waiting: [(bytes: Int, continuation: CheckedContinuation<Bool, Never>)] = []
        var waitingBytes = 0

        mutating func takes(_ more: Int) -> Bool {
            guard bytes == 0 || bytes + more <= bytesMax else { return false }
            bytes += more
            return true
        }
    }

    private let state = Mutex(State())

    /// Counts the bytes of a message as long as it lives.
    final class Permit: Sendable {
        private let admission: ChangeAdmission
        private let bytes: Int

        fileprivate init(_ admission: ChangeAdmission, _ bytes: Int) {
            self.admission = admission
            self.bytes = bytes
        }

        deinit { admission.leave(bytes) }
    }

    /// Waits until a message is let in, after those that wait.
    /// - Returns: nil if too much waits already.
    func enter(_ bytes: Int) async -> Permit? {
        let isLetIn = await withCheckedContinuation { continuation in
            let answer = state.withLock { state -> Bool? in
                if state.waiting.isEmpty, state.takes(bytes) { return true }
                guard state.waitingBytes + bytes <= Self.waitingBytesMax else { return false }
                state.waiting.append((bytes, continuation))
                state.waitingBytes += bytes
                return nil
            }
            if let answer { continuation.resume(returning: answer) }
        }
        return isLetIn ? Permit(self, bytes) : nil
    }

    private func leave(_ bytes: Int) {
        let letIn = state.withLock { state in
            state.bytes -= bytes
            let count = state.waiting.prefix { state.takes($0.bytes) }.count
            defer { state.waiting.removeFirst(count) }
            state.waitingBytes -= state.waiting.prefix(count).reduce(0) { $0 + $1.bytes }
            return state.waiting.prefix(count).map(\.continuation)
        }
        for continuation in letIn { continuation.resume(returning: true) }
    }
}
