import Foundation
import Synchronization

/// Lets Ctrl-C and SIGTERM end the command together with the servers that it has started, which are in process groups
/// of their own and would run on.
final class EndingSignals {
    private let sources: [any DispatchSourceSignal]

    /// - Parameters:
    ///   - onFirstInterrupt: is called at the first Ctrl-C, which then ends nothing, so that the run can end in order.
    ///   - cleanUp: is called before the process ends.
    init(onFirstInterrupt: (@Sendable () -> Void)? = nil, cleanUp: @escaping @Sendable () -> Void = {}) {
        let queue = DispatchQueue(label: "signals")
        let interrupts = Atomic(0)
        sources = [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler {
                if number == SIGINT, let onFirstInterrupt, interrupts.add(1, ordering: .relaxed).oldValue == 0 {
                    return onFirstInterrupt()
                }
                ServerUnderLoad.endAll(exitStatus: 128 + number, cleanUp: cleanUp)
            }
            source.resume()
            return source
        }
    }

    func cancel() { for source in sources { source.cancel() } }
}
