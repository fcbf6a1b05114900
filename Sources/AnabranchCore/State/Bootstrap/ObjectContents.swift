/// The edits that give an object, which has just been created, all that another one holds. They are found one by one,
/// down to the last element of the deepest collection.
struct ObjectContents: Sendable {
    private let schema: Schema
    private let columns: CanonicalColumns
    /// The object itself and what it holds on the way to the current place.
    private var levels: [Level]
    /// The field of the object that the edit found last belongs to.
    private(set) var field: [UInt8] = []
    /// The path of that edit below the field.
    private(set) var path: [PathStep] = []

    private struct Level: Sendable {
        var places: any PlaceCursor
        /// The length of the path to the object or collection.
        let pathCount: Int
    }

    init(of fields: Fields, in classID: ClassID, _ schema: Schema, _ columns: CanonicalColumns) {
        self.schema = schema
        self.columns = columns
        levels = [Level(places: FieldCursor(fields, columns[classID]), pathCount: 0)]
    }

    /// The next edit; nil when there are no more.
    mutating func next() throws(ApplyError) -> Edit? {
        while let top = levels.indices.last {
            guard let found = try levels[top].places.next() else {
                levels.removeLast()
                continue
            }
            path.removeLast(path.count - levels[top].pathCount)
            go(to: found.step)
            try enter(found)
            if let edit = try edit(found) { return edit }
        }
        return nil
    }

    private mutating func go(to step: PathStep?) {
        guard let step else { return }
        if levels.count == 1, case .name(let name) = step { field = name } else { path.append(step) }
    }

    /// Makes what the place holds the next level, if it is an object or a collection.
    private mutating func enter(_ found: FilledPlace) throws(ApplyError) {
        let places: any PlaceCursor
        switch found.content {
        case .object(let fields): places = FieldCursor(fields, columns[found.place.target])
        case .list(let list): places = try ListCursor(list, found.place.element)
        case .set(let elements): places = try SetCursor(elements, found.place.element, schema)
        case .dictionary(let entries): places = try DictionaryCursor(entries, found.place.element)
        default: return
        }
        levels.append(Level(places: places, pathCount: path.count))
    }

    /// The edit that puts the content there; nil if there is none. A collection column is there from the start; and a
    /// null in place of an embedded object is not recorded, because it would win against an object that a client has
    /// made there.
    private func edit(_ found: FilledPlace) throws(ApplyError) -> Edit? {
        guard found.place.collection == .single else { return nil }
        let payload = try payload(of: found.content)
        switch found.kind {
        case .field: return found.place.isEmbedded && payload == .null ? nil : .update(payload)
        case .entry: return .update(payload)
        case .element(let index): return .insert(payload, priorSize: index)
        case .setElement: return .setInsert(payload)
        }
    }

    private func payload(of content: Content) throws(ApplyError) -> Payload {
        guard case .link(let object) = content else { return try content.payload }
        return .link(className: schema[object.classID].name, key: object.key)
    }
}
