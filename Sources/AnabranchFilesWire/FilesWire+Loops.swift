import AnabranchChunks
import AnabranchCore
import AnabranchHistory

/// Folders that lie in themselves, since two devices have moved them at once.
extension FilesWire {
    /// Cuts the loops: the folder of each that was moved last goes where it was before, or into the root.
    func repairLoops(of path: VirtualPath) async throws {
        let now = Timestamp(seconds: Int64(clamping: unixSeconds()), nanoseconds: 0)
        try await write(path) { transaction, records in
            var folders: [UUIDBytes: SpaceObject] = [:]
            try transaction.state.forEachSpaceObject(isFolder: true) { folders[$0] = $1 }
            var parents = folders.compactMapValues(\.parent)
            while let loop = Self.loop(in: parents) {
                // The same that every reader computes: see `SpaceTree` of the client.
                guard let last = loop.max(by: { Self.isEarlier($0, $1, folders) }) else { return }
                var target = try records.formerParent(of: last)
                parents[last] = target
                if target.map({ folders[$0] == nil }) ?? true || Self.isLooped(last, parents) { target = nil }
                parents[last] = target
                guard let object = try transaction.object(SpaceClasses.folder, key: .uuid(last)) else { return }
                try object.set(SpaceClasses.parent, to: target.map { .uuid($0) } ?? .null)
                try object.set(SpaceClasses.moved, to: .timestamp(now))
            }
        }
    }

    /// The folders of a loop.
    private static func loop(in parents: [UUIDBytes: UUIDBytes]) -> [UUIDBytes]? {
        var isFree: Set<UUIDBytes> = []
        for start in parents.keys {
            var way: [UUIDBytes] = [], seen: [UUIDBytes: Int] = [:], next: UUIDBytes? = start
            while let folder = next, !isFree.contains(folder) {
                if let first = seen[folder] { return Array(way[first...]) }
                seen[folder] = way.count
                way.append(folder)
                next = parents[folder]
            }
            isFree.formUnion(way)
        }
        return nil
    }

    private static func isLooped(_ folder: UUIDBytes, _ parents: [UUIDBytes: UUIDBytes]) -> Bool {
        var seen: Set<UUIDBytes> = [], next = parents[folder]
        while let parent = next, seen.insert(parent).inserted {
            if parent == folder { return true }
            next = parents[parent]
        }
        return false
    }

    private static func isEarlier(
        _ left: UUIDBytes, _ right: UUIDBytes, _ folders: [UUIDBytes: SpaceObject]
    ) -> Bool {
        func time(_ key: UUIDBytes) -> (Int64, Int32) {
            folders[key]?.moved.map { ($0.seconds, $0.nanoseconds) } ?? (.min, 0)
        }
        return time(left) == time(right)
            ? left.bytes.lexicographicallyPrecedes(right.bytes) : time(left) < time(right)
    }
}
