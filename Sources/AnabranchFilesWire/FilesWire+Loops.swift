import AnabranchChunks
import AnabranchCore
import AnabranchHistory

/// Folders that lie in themselves, since two devices have moved them at once.
extension FilesWire {
    /// Cuts the loops: the folder of each that was moved last goes where it was before, or into the root.
    func repairLoops(of path: VirtualPath) async throws {
        let time = preciseSeconds(), second = time.rounded(.down)
        let now = Timestamp(seconds: Int64(second), nanoseconds: Int32((time - second) * 1_000) * 1_000_000)
        try await write(path) { transaction, records in
            var folders: [UUIDBytes: SpaceObject] = [:]
            try transaction.state.forEachSpaceObject(isFolder: true) { folders[$0] = $1 }
            var parents = folders.compactMapValues(\.parent)
            // The same that every reader computes: see `SpaceTree` of the client.
            let cut = Self.loops(in: parents).compactMap { $0.max { Self.isEarlier($0, $1, folders) } }
            for last in cut { parents[last] = nil }
            for last in cut {
                var target = try records.formerParent(of: last)
                if let former = target, folders[former] == nil || Self.top(above: former, &parents) == last {
                    target = nil
                }
                parents[last] = target
                guard let object = try transaction.object(SpaceClasses.folder, key: .uuid(last)) else { continue }
                try object.set(SpaceClasses.parent, to: target.map { .uuid($0) } ?? .null)
                try object.set(SpaceClasses.moved, to: .timestamp(now))
            }
        }
    }

    /// The folders of each loop.
    private static func loops(in parents: [UUIDBytes: UUIDBytes]) -> [[UUIDBytes]] {
        var loops: [[UUIDBytes]] = [], known: Set<UUIDBytes> = []
        for start in parents.keys {
            var way: [UUIDBytes] = [], places: [UUIDBytes: Int] = [:], next: UUIDBytes? = start
            while let folder = next, !known.contains(folder) {
                if let first = places[folder] {
                    loops.append(Array(way[first...]))
                    break
                }
                places[folder] = way.count
                way.append(folder)
                next = parents[folder]
            }
            known.formUnion(way)
        }
        return loops
    }

    /// The outermost folder around a folder, or itself. The way is half as long the next time.
    private static func top(above folder: UUIDBytes, _ parents: inout [UUIDBytes: UUIDBytes]) -> UUIDBytes {
        var folder = folder
        while let parent = parents[folder] {
            if let next = parents[parent] { parents[folder] = next }
            folder = parents[folder] ?? parent
        }
        return folder
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
