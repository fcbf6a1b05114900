/// The effects of a change to a state: what a store has to write.
public struct StateChanges: Sendable {
    /// True if classes or columns were added or erased, or a class was linked to from a new column.
    public internal(set) var isSchemaChanged = false
    /// True if a column or class was erased: its values are gone although no object in `objects` changed.
    var erasesValues = false
    /// The classes that were erased; their objects are gone with them.
    public internal(set) var erasedClasses: [ClassID] = []
    /// The objects that were created, changed or erased, in the order of these changes and possibly several times.
    public internal(set) var objects: [ObjectReference] = []

    /// No changes.
    public init() {}

    /// The objects in order, each once, without those of erased classes.
    public var distinctObjects: [ObjectReference] {
        let erased = Set(erasedClasses)
        var distinct: [ObjectReference] = []
        for object in objects.sorted() where distinct.last != object && !erased.contains(object.classID) {
            distinct.append(object)
        }
        return distinct
    }

    /// Adds the effects of a later change.
    public mutating func append(_ later: StateChanges) {
        isSchemaChanged = isSchemaChanged || later.isSchemaChanged
        erasesValues = erasesValues || later.erasesValues
        erasedClasses += later.erasedClasses
        objects += later.objects
    }
}

/// The edit that an instruction makes at a place.
enum Edit {
    case update(Payload)
    case addInteger(Int64)
    case insert(Payload, priorSize: Int)
    case move(to: Int, priorSize: Int)
    case erase(priorSize: Int)
    case clear(CollectionType)
    case setInsert(Payload)
    case setErase(Payload)
}

/// One element of a path.
enum PathStep: Hashable, Sendable {
    case index(Int)
    /// A dictionary key or a field of an embedded object.
    case name([UInt8])

    var isIndex: Bool { if case .index = self { true } else { false } }
}
