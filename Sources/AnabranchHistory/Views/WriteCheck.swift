import AnabranchCore

/// Finds the objects that a changeset writes to and that its client may not write to so: all that it does to these is
/// left out, and nothing else (`Spec/FlexibleSync.md`).
struct WriteCheck {
    private let view: ClientView
    /// The state before the changeset.
    private let before: ObjectGraph
    private(set) var refused: [ObjectReference: CompensatingWrite.Object] = [:]

    init(of view: ClientView, before: ObjectGraph) {
        self.view = view
        self.before = before
    }

    /// Refuses what is wrong whatever the changeset makes of it: objects that the client does not see.
    /// - Returns: the objects.
    mutating func refuse(
        from changeset: ChangesetIndex, of arena: ChangesetArena
    ) throws(HistoryError) -> Set<ObjectKeyID> {
        var found: Set<ObjectKeyID> = []
        for object in arena.touchedObjects(of: changeset) {
            // A class that the changeset adds has no objects yet.
            guard let number = before.schema(ofClass: object.className)?.number else { continue }
            let reference = ObjectReference(classID: number, key: object.key)
            if try before.has(reference) {
                if try view.includes(reference, of: object.className, in: before) { continue }
            } else if object.isCreated || object.firstKind == .eraseObject {
                // What somebody else has erased meanwhile may be erased again.
                continue
            }
            found.insert(object.id)
            refuse(object, reference, isOutside: true)
        }
        return found
    }

    /// Refuses what the merge has left out of a changeset because the object has left the view meanwhile, by a change
    /// of the role for example: the client, which may not have written to it there, has to be told. Of an object that
    /// somebody has erased it is told nothing.
    /// - Parameters:
    ///   - sent: the changeset as it came.
    ///   - kept: the objects that it still touches.
    mutating func refuse(lostOf sent: [UInt8], keeping kept: [TouchedObject]) throws(HistoryError) {
        var arena = ChangesetArena()
        guard let index = try? arena.decode(sent, version: 1, tag: OriginTag(timestamp: 0, ident: 0)) else { return }
        let kept = Set(kept.map { KeyedObject($0) })
        for object in arena.touchedObjects(of: index) where !kept.contains(KeyedObject(object)) {
            guard let number = before.schema(ofClass: object.className)?.number else { continue }
            let reference = ObjectReference(classID: number, key: object.key)
            guard try before.has(reference), try !view.includes(reference, of: object.className, in: before) else {
                continue
            }
            refuse(object, reference, isOutside: true)
        }
    }

    /// An object by its names, which are the same in every arena.
    private struct KeyedObject: Hashable {
        private let className: [UInt8]
        private let key: PrimaryKey

        init(_ object: TouchedObject) { (className, key) = (object.className, object.key) }
    }

    /// Refuses what the rules do not allow, or creates what the client would not see.
    /// - Parameters:
    ///   - after: the state behind the changeset.
    ///   - role: the one that the view has there.
    /// - Returns: the objects.
    mutating func refuse(
        from changeset: ChangesetIndex, of arena: ChangesetArena, after: ObjectGraph, as role: ViewRole
    ) throws(HistoryError) -> Set<ObjectKeyID> {
        var found: Set<ObjectKeyID> = [], viewAfter = view
        viewAfter.role = role
        for object in arena.touchedObjects(of: changeset) {
            let reference = try after.reference(to: object)
            let old = before.schema(of: reference.classID) == nil ? nil : try before.read(reference)
            let new = try after.read(reference)
            let permissions = view.role[object.className], later = role[object.className]
            var isAllowed = true, isOutside = false
            switch (old, new) {
            case (nil, let new?):
                isAllowed = try later.insert.includes(new, in: after)
                isOutside = try !viewAfter.includes(new, of: object.className, in: after)
            case (let old?, nil): isAllowed = try permissions.delete.includes(old, in: before)
            case (let old?, let new?):
                isAllowed = try permissions.write.includes(old, in: before)
                if isAllowed { isAllowed = try later.write.includes(new, in: after) }
            case (nil, nil): break
            }
            guard !isAllowed || isOutside else { continue }
            found.insert(object.id)
            refuse(object, reference, isOutside: isAllowed && isOutside)
        }
        return found
    }

    private mutating func refuse(_ object: TouchedObject, _ reference: ObjectReference, isOutside: Bool) {
        refused[reference] = CompensatingWrite.Object(refusing: object, isOutside: isOutside)
    }
}

extension CompensatingWrite.Object {
    init(refusing object: TouchedObject, isOutside: Bool = false) {
        let table = String(decoding: object.className, as: UTF8.self)
        self.init(
            className: object.className, key: object.key,
            reason: "write to \(object.key.words) in table \"\(table)\" not allowed"
                + (isOutside ? "; object is outside of the current query view" : ""))
    }
}

extension PrimaryKey {
    /// As applications know it.
    fileprivate var words: String {
        switch self {
        case .null: "null"
        case .int(let value): "\(value)"
        case .string(let value): "\"\(String(excerptOf: value))\""
        case .globalKey: "an object without primary key"
        case .objectID(let value): "ObjectID(\"\(value)\")"
        case .uuid(let value): "UUID(\(value))"
        }
    }
}
