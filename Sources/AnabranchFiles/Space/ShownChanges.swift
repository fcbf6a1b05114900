import Foundation
import Synchronization

/// The files and folders that may be shown otherwise than at the last question: in another place, with another content,
/// or not any more.
final class ShownChanges: Sendable {
    /// Nil if it may be any.
    private let keys = Mutex<Set<UUID>?>(nil)
    private let bell: Bell

    /// - Parameter bell: rings when there are some.
    init(_ bell: Bell) { self.bell = bell }

    /// - Parameter new: nil if it may be any.
    func add(_ new: Set<UUID>?) {
        keys.withLock { keys in
            if let new { keys?.formUnion(new) } else { keys = nil }
        }
        bell.ring()
    }

    /// - Returns: nil if it may be any.
    func take() -> Set<UUID>? {
        keys.withLock { keys in
            defer { keys = [] }
            return keys
        }
    }
}
