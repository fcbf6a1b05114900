import Foundation
import Synchronization

/// What the thread sanitizer must not report, and with the argument `race` what it has to: threads that count.
/// scripts/sanitize runs it before the tests, so that a clean run says something.
@main enum Check {
    private static let underMutex = Mutex(0)
    nonisolated(unsafe) private static var inActor = 0
    nonisolated(unsafe) private static var handedOver = 0
    private static let copied = Mutex([0])
    nonisolated(unsafe) private static var unguarded = 0

    private actor Guard {
        func count() { inActor += 1 }
    }

    static func main() async {
        await count(isGuarded: CommandLine.arguments.last != "race")
        print(underMutex.withLock { $0 }, copied.withLock { $0 }, inActor, handedOver)
    }

    /// Eight threads under a `Mutex`, which read a copy without it, and eight tasks that wait for them. Then a task and
    /// a thread by turns.
    private static func count(isGuarded: Bool) async {
        let counter = Guard()
        await withTaskGroup { group in
            for _ in 0..<8 {
                group.addTask {
                    await thread {
                        for _ in 0..<20_000 {
                            underMutex.withLock { $0 += 1 }
                            copied.withLock { $0[0] += 1 }
                            precondition(copied.withLock { $0 }[0] > 0)
                            if !isGuarded { unguarded += 1 }
                        }
                    }
                    for _ in 0..<1_000 { await counter.count() }
                }
            }
        }
        for _ in 0..<100 {
            await thread { handedOver += 1 }
            handedOver += 1
        }
    }

    private static func thread(_ body: @escaping @Sendable () -> Void) async {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                body()
                continuation.resume()
            }
        }
    }
}
