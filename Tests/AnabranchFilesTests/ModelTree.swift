import AnabranchChunks
import AnabranchClient
import Foundation

@testable import AnabranchFiles

/// The tree of a device by the words of `Spec/Files.md`, section 6, found in the plainest way from the records alone.
struct ModelTree {
    /// The folder in which each file and folder is shown; none for those in the root.
    private var parents: [UUID: UUID] = [:]
    private var names: [UUID: String] = [:]
    private var living: Set<UUID> = []

    init(_ store: SyncedStore) throws {
        let (files, folders) = try store.read { snapshot in
            (try snapshot.all(FileRecord.self), try snapshot.all(FolderRecord.self))
        }
        let known = Set(folders.map(\.id)), moved = Dictionary(uniqueKeysWithValues: folders.map { ($0.id, $0.moved) })
        for file in files { (names[file.id], parents[file.id]) = (file.name, file.parent) }
        for folder in folders { (names[folder.id], parents[folder.id]) = (folder.name, folder.parent) }
        parents = parents.filter { known.contains($0.value) }
        for folder in folders {
            var way = [folder.id]
            while let next = parents[way[way.count - 1]], next != folder.id, way.count <= folders.count {
                way.append(next)
            }
            guard parents[way[way.count - 1]] == folder.id else { continue }
            let last = way.max { left, right in
                let (one, other) = (moved[left] ?? .distantPast, moved[right] ?? .distantPast)
                return one == other ? left.uuidString < right.uuidString : one < other
            }
            if let last { parents[last] = nil }
        }
        let kept = files.filter { $0.trashed.map { Array($0) } != $0.content.id.bytes }.map(\.id)
        for start in kept + folders.filter({ $0.trashed == nil }).map(\.id) {
            var next: UUID? = start
            while let key = next, living.insert(key).inserted { next = parents[key] }
        }
    }

    /// The first thing that a space shows otherwise; nil if there is none.
    func fault(of space: FileSpace) throws -> String? {
        let entries = try space.everything()
        var keys: [SpacePath: UUID] = [:]
        for entry in entries where keys.updateValue(entry.key, forKey: entry.path) != nil {
            return "two are shown as \(entry.path)"
        }
        guard Set(entries.map(\.key)) == living else { return "others live than are shown: \(entries.map(\.path))" }
        for entry in entries where entry.path.parent.flatMap({ keys[$0] }) != parents[entry.key] {
            return "\(entry.path) is shown in another folder than its own"
        }
        let equal = Dictionary(grouping: entries) { "\(parents[$0.key]?.uuidString ?? "") \(names[$0.key] ?? "")" }
        for same in equal.values {
            let first = same.map(\.key.uuidString).min()
            for entry in same where (entry.displayName == names[entry.key]) != (entry.key.uuidString == first) {
                return "\(entry.path) has a name that is due to another"
            }
        }
        return nil
    }
}
