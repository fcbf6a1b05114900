import Foundation
import Synchronization

/// The number of requests so far. A signal handler may use nothing that locks or allocates.
private let interruptions = Atomic(0)

/// Lets Ctrl-C or SIGTERM end a command in an orderly way, with a report of what it has done; the second signal ends
/// the process.
package struct Interruption {
    /// The exit status of a command that was interrupted.
    package static let status: Int32 = 128 + SIGINT

    /// Begins to listen.
    package init() {
        interruptions.store(0, ordering: .relaxed)
        for number in [SIGINT, SIGTERM] {
            signal(number) { _ in
                if interruptions.add(1, ordering: .relaxed).oldValue > 0 { _exit(Interruption.status) }
            }
        }
    }

    package var isAsked: Bool { interruptions.load(ordering: .relaxed) > 0 }
}
