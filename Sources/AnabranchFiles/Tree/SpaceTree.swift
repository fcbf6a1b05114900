import AnabranchChunks
import Foundation

/// The files and folders of a space, and how they are shown: everything follows from the records alone, so all devices
/// show the same (`Spec/Files.md`, section 6).
struct SpaceTree: Sendable {
    struct Node: Sendable, Equatable {
        let key: UUID
        let isFolder: Bool
        /// A name that can be one: see `shown`.
        var name: String
        var parent: UUID?
        var moved: Date
        /// Nil for a folder.
        var content: ContentNote?
        /// The content id that is deleted; for a folder it has no meaning, only that it is there.
        var trashed: [UInt8]?
        var modified: Date?
    }

    /// The part of a content that is remembered.
    struct ContentNote: Sendable, Equatable {
        let id: ChunkHash
        let size: Int64

        /// The id as entries have it; nil if the content has not arrived at the server.
        var text: String? { id == Manifest.awaited.id ? nil : id.description }
    }

    private(set) var nodes: [UUID: Node] = [:]
    /// By the folder that they name, whether it exists or not.
    private var children: [UUID?: Set<UUID>] = [:]
    private var named: [UUID?: [String: Set<UUID>]] = [:]
    /// The folders named that do not exist.
    private var unknownFolders: Set<UUID> = []
    /// Folders that are shown in the root, since they lie in themselves, or too deep.
    private var cuts: Set<UUID> = []
    private var areCutsKnown = true
    /// Contents that were written here and wait for upload.
    private var written: [UUID: ContentNote] = [:]

    // MARK: Changing

    mutating func set(_ node: Node?, _ key: UUID) {
        let old = nodes[key]
        if let old {
            children[old.parent]?.remove(key)
            named[old.parent]?[old.name]?.remove(key)
            if named[old.parent]?[old.name]?.isEmpty == true { named[old.parent]?[old.name] = nil }
            if children[old.parent]?.isEmpty == true { children[old.parent] = nil }
        }
        let isFolderChanged = old?.isFolder ?? false || node?.isFolder ?? false
        if isFolderChanged, old?.parent != node?.parent || old == nil || node == nil { areCutsKnown = false }
        nodes[key] = node
        if let node {
            children[node.parent, default: []].insert(key)
            named[node.parent, default: [:]][node.name, default: []].insert(key)
        }
        for case let folder? in [old?.parent, node?.parent, key] {
            let isUnknown = children[folder] != nil && nodes[folder]?.isFolder != true
            if isUnknown { unknownFolders.insert(folder) } else { unknownFolders.remove(folder) }
        }
    }

    mutating func setWritten(_ content: ContentNote?, of key: UUID) { written[key] = content }

    /// The most folders that lie in each other, so that no path is longer: a further one is shown in the root.
    static let depthMax = 255

    /// Finds the folders that lie in themselves, or too deep. To be called after changes.
    mutating func findCuts() {
        guard !areCutsKnown else { return }
        areCutsKnown = true
        cuts = []
        var depths: [UUID: Int] = [:]
        for start in nodes.values where start.isFolder {
            var way: [UUID] = [], seen: [UUID: Int] = [:], next: UUID? = start.key
            while let folder = next, depths[folder] == nil, let node = nodes[folder], node.isFolder {
                if let first = seen[folder], let last = way[first...].max(by: isEarlier) {
                    // The walk starts again, and ends there.
                    cuts.insert(last)
                    (way, seen, next) = ([], [:], start.key)
                    continue
                }
                seen[folder] = way.count
                way.append(folder)
                next = cuts.contains(folder) ? nil : node.parent
            }
            var depth = next.flatMap { depths[$0] } ?? 0
            for folder in way.reversed() {
                depth = cuts.contains(folder) ? 1 : depth + 1
                if depth > Self.depthMax {
                    cuts.insert(folder)
                    depth = 1
                }
                depths[folder] = depth
            }
        }
    }

    private func isEarlier(_ left: UUID, _ right: UUID) -> Bool {
        guard let one = nodes[left]?.moved, let other = nodes[right]?.moved, one != other else {
            return Self.isBefore(left, right)
        }
        return one < other
    }

    /// The order of keys, byte by byte.
    static func isBefore(_ left: UUID, _ right: UUID) -> Bool {
        withUnsafeBytes(of: left.uuid) { left in
            withUnsafeBytes(of: right.uuid) { left.lexicographicallyPrecedes($0) }
        }
    }

    // MARK: Reading

    /// The content as this device shows it.
    func content(of key: UUID) -> ContentNote? { written[key] ?? nodes[key]?.content }

    /// True if it is not deleted.
    func lives(_ key: UUID) -> Bool {
        var waiting = [key], seen: Set<UUID> = []
        while let key = waiting.popLast() {
            guard seen.insert(key).inserted, let node = nodes[key] else { continue }
            if isKept(node) { return true }
            if node.isFolder { waiting += (children[key] ?? []).filter { !cuts.contains($0) } }
        }
        return false
    }

    /// True if it is not deleted, whatever is below it.
    private func isKept(_ node: Node) -> Bool {
        guard let trashed = node.trashed else { return true }
        return !node.isFolder && trashed != content(of: node.key)?.id.bytes
    }

    /// The folder in which something is shown; nil for the root.
    func folder(of key: UUID) -> UUID? {
        guard let parent = nodes[key]?.parent, !cuts.contains(key), nodes[parent]?.isFolder == true else { return nil }
        return parent
    }

    /// The files and folders that are shown in a folder, or in the root, and deleted ones.
    func all(in folder: UUID?) -> [UUID] {
        var keys = (children[folder] ?? []).filter { !cuts.contains($0) }
        if folder == nil {
            keys.formUnion(cuts)
            for unknown in unknownFolders { keys.formUnion(children[unknown] ?? []) }
        }
        return Array(keys)
    }

    /// The living files and folders in a folder, or in the root, by the names that are shown, in the order of the keys.
    func list(_ folder: UUID?) -> [(key: UUID, name: String)] {
        let keys = all(in: folder).filter(lives).sorted(by: Self.isBefore)
        var first: [String: UUID] = [:]
        for key in keys { if let name = nodes[key]?.name, first[name] == nil { first[name] = key } }
        var taken = Set(first.keys), numbers: [String: Int] = [:]
        return keys.compactMap { key in
            guard let name = nodes[key]?.name else { return nil }
            guard first[name] != key else { return (key, name) }
            var number = numbers[name] ?? 2
            while !taken.insert(Self.marked(name, "(\(number))")).inserted { number += 1 }
            numbers[name] = number + 1
            return (key, Self.marked(name, "(\(number))"))
        }
    }

    /// The living file or folder that is shown under a name in a folder, or in the root.
    func find(_ name: String, in folder: UUID?) -> UUID? {
        var keys = (named[folder]?[name] ?? []).filter { !cuts.contains($0) }
        if folder == nil {
            for key in cuts where nodes[key]?.name == name { keys.insert(key) }
            for unknown in unknownFolders { keys.formUnion(named[unknown]?[name] ?? []) }
        }
        if let first = keys.filter(lives).min(by: Self.isBefore) { return first }
        guard name.contains(")"), mayHaveEqualNames(folder) else { return nil }
        return list(folder).first { $0.name == name }?.key
    }

    /// False if no name in a folder, or in the root, is shown with a number.
    private func mayHaveEqualNames(_ folder: UUID?) -> Bool {
        if folder == nil, !cuts.isEmpty || !unknownFolders.isEmpty { return true }
        return named[folder]?.values.contains { $0.count > 1 } ?? false
    }

    /// The living file or folder at a path; `.some(nil)` for the root.
    func find(_ path: SpacePath) -> UUID?? {
        var found: UUID?
        for (index, name) in path.components.enumerated() {
            if index > 0, found.flatMap({ nodes[$0]?.isFolder }) != true { return nil }
            guard let next = find(name, in: found) else { return nil }
            found = next
        }
        return .some(found)
    }

    /// The path under which something is shown; that which it had, if it is deleted. Nil if there is no such thing.
    func path(of key: UUID) -> SpacePath? { paths(of: [key])[key] }

    /// The same of many: no folder is listed again and again.
    func paths(of keys: [UUID]) -> [UUID: SpacePath] {
        var all: Set<UUID> = [], names: [UUID: String] = [:], paths: [UUID: SpacePath] = [:]
        for key in keys {
            var next: UUID? = key
            while let key = next, all.insert(key).inserted { next = folder(of: key) }
        }
        for (folder, keys) in Dictionary(grouping: all, by: folder(of:)) {
            if keys.count > Self.singleNames {
                for (key, name) in list(folder) { names[key] = name }
            } else {
                for key in keys { names[key] = nodes[key].map { shownName(of: $0, in: folder) } }
            }
        }
        for key in keys where nodes[key] != nil {
            var components: [String] = [], next: UUID? = key
            while let key = next, let node = nodes[key] {
                components.append(names[key] ?? node.name)
                next = folder(of: key)
            }
            paths[key] = SpacePath(unchecked: components.reversed())
        }
        return paths
    }

    /// The number of things in a folder whose names are looked for one by one.
    private static let singleNames = 8

    private func shownName(of node: Node, in folder: UUID?) -> String {
        if find(node.name, in: folder) == node.key { return node.name }
        return list(folder).first { $0.key == node.key }?.name ?? node.name
    }

    /// The deleted files and folders, without those below another deleted folder.
    func trash() -> [UUID] {
        var living: Set<UUID> = []
        for node in nodes.values where isKept(node) {
            var next: UUID? = node.key
            while let key = next, living.insert(key).inserted { next = folder(of: key) }
        }
        return nodes.keys.filter { !living.contains($0) && folder(of: $0).map(living.contains) ?? true }
    }

    /// A folder, or a file, and everything below it.
    func subtree(_ key: UUID) -> [UUID] {
        var found: [UUID] = [], waiting = [key]
        while let key = waiting.popLast() {
            found.append(key)
            waiting += (children[key] ?? []).filter { !cuts.contains($0) }
        }
        return found
    }

    /// True if something is shown in the root that does not say that it is there.
    var hasStrays: Bool { !cuts.isEmpty || !unknownFolders.isEmpty }

    /// The files and folders whose shown names may change with one of them, and that itself.
    func alike(_ key: UUID) -> Set<UUID> {
        guard let node = nodes[key] else { return [key] }
        // Another one may be shown with the number that is in its name.
        let mayBeNumber = node.name.contains(")") && mayHaveEqualNames(node.parent)
        let others = mayBeNumber ? children[node.parent] : named[node.parent]?[node.name]
        return (others ?? []).union([key])
    }

    // MARK: Names

    /// A name that another program has written, and that cannot be one, with its slashes and such replaced.
    static func shown(_ name: String) -> String {
        guard SpacePath.fault(of: name) != nil else { return name }
        let scalars = name.unicodeScalars.map { $0 == "/" || $0.value == 0 ? "_" : Character($0) }
        var shown = String(scalars.prefix(60))
        if shown.isEmpty || shown == "." || shown == ".." { shown += "_" }
        return shown
    }

    /// A name with a mark before its ending.
    static func marked(_ name: String, _ mark: String) -> String {
        let dot = name.lastIndex(of: ".").flatMap { $0 == name.startIndex ? nil : $0 } ?? name.endIndex
        var stem = name[..<dot], ending = name[dot...]
        if ending.utf8.count > 32 { (stem, ending) = (name[...], name[name.endIndex...]) }
        while stem.utf8.count + ending.utf8.count + mark.utf8.count + 1 > SpacePath.nameBytesMax, !stem.isEmpty {
            stem = stem.dropLast()
        }
        return "\(stem) \(mark)\(ending)"
    }
}
