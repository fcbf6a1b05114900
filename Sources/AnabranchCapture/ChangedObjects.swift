package import AnabranchCore
import Synchronization

/// Keys of objects, each once. There can be very many, so they are stored contiguously, and sorted when their number
/// has doubled and before they are read.
package struct KeySet: Sendable {
    private var keys: [PrimaryKey] = []
    /// The number of the first of them that are in order.
    private var orderedCount = 0

    /// The number of keys up to which they are only sorted before they are read.
    private static let unorderedMax = 4_096

    package init() {}

    package var isEmpty: Bool { keys.isEmpty }

    /// The number of keys that are kept: some may be there twice.
    var count: Int { keys.count }

    package mutating func insert(_ key: PrimaryKey) {
        keys.append(key)
        if keys.count >= 2 * orderedCount + Self.unorderedMax { putInOrder() }
    }

    /// The keys in their order: those that are near each other have their rows in the same pages.
    package consuming func ordered() -> [PrimaryKey] {
        putInOrder()
        return keys
    }

    private mutating func putInOrder() {
        guard keys.count > orderedCount else { return }
        keys.sort()
        var count = 1
        for index in 1..<keys.count where keys[index] != keys[count - 1] {
            keys[count] = keys[index]
            count += 1
        }
        keys.removeLast(keys.count - count)
        orderedCount = count
    }
}

/// The objects that may differ from their rows: those that others have changed, from the replica's turns, and those
/// whose rows have to be restored.
package final class ChangedObjects: Sendable {
    package struct Taken: Sendable {
        /// True if any object may differ.
        package var isEverything = false
        /// The keys of objects, by class.
        package var keys: [ClassID: KeySet] = [:]
        /// The keys of the objects of rows, by table.
        var rows: [Int64: KeySet] = [:]

        package var isEmpty: Bool { !isEverything && keys.isEmpty && rows.isEmpty }
    }

    private let state = Mutex(Taken())

    package init() {}

    /// - Parameter objects: nil for all.
    package func add(_ objects: [ObjectReference]?) {
        state.withLock { state in
            guard let objects else { return state.isEverything = true }
            for object in objects { state.keys[object.classID, default: KeySet()].insert(object.key) }
        }
    }

    func insert(_ objects: [DirtyObject]) {
        state.withLock { state in
            for object in objects { state.rows[object.table, default: KeySet()].insert(.uuid(object.guid)) }
        }
    }

    package var isEmpty: Bool { state.withLock { $0.isEmpty } }

    package func take() -> Taken {
        state.withLock { state in
            defer { state = Taken() }
            return state
        }
    }
}
