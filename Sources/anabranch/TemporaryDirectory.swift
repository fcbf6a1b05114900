import Foundation
import Synchronization

/// A directory that is removed when Ctrl-C or SIGTERM ends the command. Otherwise its creator removes it.
final class TemporaryDirectory: Sendable {
    /// The number of attempts to remove it: the work that still goes on can make one more file each time.
    private static let attempts = 100

    private let path = Mutex(String?.none)

    func record(_ path: String) { self.path.withLock { $0 = path } }

    /// - Returns: sources to keep for as long as the signals are to end the command in this way.
    func removedAtSignals() -> [any DispatchSourceSignal] {
        [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [self] in
                remove()
                signal(number, SIG_DFL)
                kill(getpid(), number)
            }
            source.activate()
            return source
        }
    }

    private func remove() {
        guard let path = path.withLock(\.self) else { return }
        for _ in 0..<Self.attempts where FileManager.default.fileExists(atPath: path) {
            try? FileManager.default.removeItem(atPath: path)
        }
    }
}
