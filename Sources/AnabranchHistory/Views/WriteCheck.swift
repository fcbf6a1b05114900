import AnabranchCore

/// Finds the objects that a changeset writes to and that its client may not write to so: all that it does to these is
/// left out, and nothing else (`Spec/FlexibleSync.md`).
struct WriteCheck {
    private let view: ClientView
    /// The state before the changeset.
    private let before: ObjectGraph
    private let evaluations: Evaluations
    var refused: [ObjectReference: CompensatingWrite.Object] {
        get { evaluations.refused }
        nonmutating set { evaluations.refused = newValue }
    }

    init(of view: ClientView, before: ObjectGraph, _ evaluations: Evaluations) {
        self.view = view
        self.before = before
        self.evaluations = evaluations
    }

    /// Refuses what is wrong whatever the changeset makes of it: objects that the client does not see.
    /// - Returns: the objects; nil if the step is over.
    func refuse(
        from changeset: ChangesetIndex, of arena: ChangesetArena
    ) throws(HistoryError) -> Set<ObjectKeyID>? {
        var found: Set<ObjectKeyID> = [], refused = refused
        evaluations.beginPart()
        for object in arena.touchedObjects(of: changeset) {
            // A class that the changeset adds has no objects yet.
            guard let number = before.schema(ofClass: object.className)?.number else { continue }
            let reference = ObjectReference(classID: number, key: object.key)
            if try before.has(reference) {
                guard let isSeen = try isSeen(reference, object) else { return nil }
                if isSeen { continue }
            } else if object.isCreated || object.firstKind == .eraseObject {
                // What somebody else has erased meanwhile may be erased again.
                continue
            }
            found.insert(object.id)
            refused[reference] = CompensatingWrite.Object(refusing: object, isOutside: true)
        }
        self.refused = refused
        return found
    }

    private func isSeen(_ reference: ObjectReference, _ object: TouchedObject) throws(HistoryError) -> Bool? {
        try evaluations.answer(to: .isSeen(reference)) { () throws(HistoryError) in
            try view.includes(reference, of: object.className, in: before)
        }
    }

    /// Refuses what the merge has left out of a changeset because the object has left the view meanwhile, by a change
    /// of the role for example: the client, which may not have written to it there, has to be told. Of an object that
    /// somebody has erased it is told nothing.
    /// - Parameters:
    ///   - sent: the changeset as it came.
    ///   - kept: the objects that it still touches.
    /// - Returns: false if the step is over.
    func refuse(lostOf sent: [UInt8], keeping kept: [TouchedObject]) throws(HistoryError) -> Bool {
        var arena = ChangesetArena(), refused = refused
        guard let index = try? arena.decode(sent, version: 1, tag: OriginTag(timestamp: 0, ident: 0)) else {
            return true
        }
        evaluations.beginPart()
        let kept = Set(kept.map { KeyedObject($0) })
        for object in arena.touchedObjects(of: index) where !kept.contains(KeyedObject(object)) {
            guard let number = before.schema(ofClass: object.className)?.number else { continue }
            let reference = ObjectReference(classID: number, key: object.key)
            guard refused[reference] == nil, try before.has(reference) else { continue }
            guard let isSeen = try isSeen(reference, object) else { return false }
            if !isSeen { refused[reference] = CompensatingWrite.Object(refusing: object, isOutside: true) }
        }
        self.refused = refused
        return true
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
    /// - Returns: the objects; nil if the step is over.
    func refuse(
        from changeset: ChangesetIndex, of arena: ChangesetArena, after: ObjectGraph, as role: ViewRole
    ) throws(HistoryError) -> Set<ObjectKeyID>? {
        var found: Set<ObjectKeyID> = [], viewAfter = view, refused = refused
        viewAfter.role = role
        evaluations.beginPart()
        for object in arena.touchedObjects(of: changeset) {
            let reference = try after.reference(to: object)
            let old = before.schema(of: reference.classID) == nil ? nil : try before.read(reference)
            let new = try after.read(reference)
            let permissions = view.role[object.className], later = role[object.className]
            let isAllowed = try evaluations.answer(to: .isAllowed(reference)) { () throws(HistoryError) in
                switch (old, new) {
                case (nil, let new?): return try later.insert.includes(new, in: after)
                case (let old?, nil): return try permissions.delete.includes(old, in: before)
                case (let old?, let new?):
                    guard try permissions.write.includes(old, in: before) else { return false }
                    return try later.write.includes(new, in: after)
                case (nil, nil): return true
                }
            }
            var isInside: Bool? = true
            if old == nil, let new {
                isInside = try evaluations.answer(to: .isCreatedInView(reference)) { () throws(HistoryError) in
                    try viewAfter.includes(new, of: object.className, in: after)
                }
            }
            guard let isAllowed, let isInside else { return nil }
            guard !isAllowed || !isInside else { continue }
            found.insert(object.id)
            refused[reference] = CompensatingWrite.Object(refusing: object, isOutside: isAllowed)
        }
        self.refused = refused
        return found
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
