import Foundation

/// Does work that waits, for other processes for example, on a thread of its own: all tests share a few, and so do the
/// servers in their process, which do not answer while those wait.
package func onOwnThread<Result: Sendable>(
    _ work: @escaping @Sendable () throws -> Result
) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Swift.Result(catching: work)) }
    }
}
