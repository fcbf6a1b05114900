import AnabranchChunks
import AnabranchCore
import AnabranchHistory

/// Keeps the records of the files and folders of a synced file: which chunks are used, and what is in the trash since
/// when.
struct FilesObserver: RecordObserver {
    let unixSeconds: @Sendable () -> UInt64
    /// How many uses of chunks are ended with an entry. Of the others `sweep` takes care.
    let endedUsesMax: Int
    /// Called when an entry has changed a folder that lies in itself, or in one that does.
    let onLoop: @Sendable () -> Void

    func observe(_ step: RecordStep, _ records: inout PendingRecords) throws(HistoryError) {
        guard step.after.hasFileSpace || step.before.hasFileSpace else { return }
        var noting = FilesNoting(now: unixSeconds(), version: step.entry.version, endedUsesMax: endedUsesMax)
        do {
            let position = try records.position()
            if position?.rawValue == step.entry.version.rawValue - 1 {
                try noting.record(step, &records)
            } else {
                // It has missed entries.
                try noting.recordAll(of: step.after, &records)
            }
            records.setPosition(step.entry.version)
        } catch let error as HistoryError {
            throw error
        } catch {
            throw HistoryError(.storeFailed, "a file cannot be read: \(error)")
        }
        if noting.hasLoop { onLoop() }
    }
}

/// Makes the records about an entry.
private struct FilesNoting {
    let now: UInt64
    let version: ServerVersion
    private var endedUsesLeft: Int
    /// True if a folder lies in itself.
    private(set) var hasLoop = false
    /// Folders above which there is no loop.
    private var free: Set<UUIDBytes> = []
    /// How many folders are looked at above those that an entry changes. Of loops that are further up, `sweep` takes
    /// care.
    private static let looksMax = 10_000

    init(now: UInt64, version: ServerVersion, endedUsesMax: Int) {
        (self.now, self.version, endedUsesLeft) = (now, version, endedUsesMax)
    }

    mutating func record(_ step: RecordStep, _ records: inout PendingRecords) throws {
        let (objects, erasedClasses) = try step.touched()
        var names: Set<SpaceObjectKey> = []
        for object in objects {
            guard case .uuid(let key) = object.key, let isFolder = Self.isFolder(object.className) else { continue }
            names.insert(SpaceObjectKey(isFolder: isFolder, key: key))
        }
        for isFolder in erasedClasses.compactMap(Self.isFolder) {
            try step.before.forEachSpaceObject(isFolder: isFolder) { key, _ in
                names.insert(SpaceObjectKey(isFolder: isFolder, key: key))
            }
        }
        for name in names {
            try record(name, from: step.before.spaceObject(name), to: step.after.spaceObject(name), &records)
        }
        var looksLeft = names.count + Self.looksMax
        for name in names where name.isFolder && !hasLoop { try look(above: name.key, step.after, &looksLeft) }
    }

    /// Looks for a loop on the way from a folder to the root.
    private mutating func look(above folder: UUIDBytes, _ state: ObjectGraph, _ looksLeft: inout Int) throws {
        var way: Set<UUIDBytes> = [], next: UUIDBytes? = folder
        while let one = next, !free.contains(one), looksLeft > 0 {
            guard way.insert(one).inserted else {
                hasLoop = true
                return
            }
            looksLeft -= 1
            next = try state.spaceObject(SpaceObjectKey(isFolder: true, key: one))?.parent
        }
        free.formUnion(way)
    }

    /// Records everything that there is, since it is not known what was there before.
    mutating func recordAll(of state: ObjectGraph, _ records: inout PendingRecords) throws {
        try records.eraseUses()
        for isFolder in [false, true] {
            var found: [(SpaceObjectKey, SpaceObject)] = []
            try state.forEachSpaceObject(isFolder: isFolder) { key, object in
                found.append((SpaceObjectKey(isFolder: isFolder, key: key), object))
            }
            for (name, object) in found { try record(name, from: nil, to: object, &records) }
        }
        hasLoop = true
    }

    private mutating func record(
        _ name: SpaceObjectKey, from before: SpaceObject?, to after: SpaceObject?, _ records: inout PendingRecords
    ) throws {
        let hasSameContent = before?.content == after?.content
        if !hasSameContent {
            let old = before?.chunks ?? [], new = after?.chunks ?? []
            let ended = old.subtracting(new).prefix(endedUsesLeft)
            endedUsesLeft -= ended.count
            for chunk in ended { try records.setUse(chunk, by: name.key, false, now: now) }
            for chunk in new.subtracting(old) { try records.setUse(chunk, by: name.key, true, now: now) }
        }
        if before == nil || after == nil || !hasSameContent || before?.trashed != after?.trashed {
            let former = try records.trash(name)
            if let after, after.isMarked, let content = after.trashed {
                if former?.content != content {
                    records.set(TrashRow(since: now, version: version, content: content), of: name)
                }
            } else if former != nil {
                records.set(nil, of: name)
            }
        }
        guard name.isFolder, let before, before.parent != after?.parent else { return }
        records.setFormerParent(after == nil ? nil : before.parent, of: name.key)
    }

    private static func isFolder(_ className: [UInt8]) -> Bool? {
        switch String(decoding: className, as: UTF8.self) {
        case SpaceClasses.file: false
        case SpaceClasses.folder: true
        default: nil
        }
    }
}
