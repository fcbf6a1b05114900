/// A place below a top-level object, as instructions name it.
struct Location {
    let object: ObjectReference
    /// The field of the top-level object.
    let field: Place
    /// The type of the place itself.
    var place: Place
    var path: [PathStep] = []
    /// The class of the innermost embedded object on the way.
    var embeddedClass: ClassID?

    init(_ object: ObjectReference, _ field: Place) {
        self.object = object
        self.field = field
        place = field
    }

    func appending(_ step: PathStep) -> Location {
        var location = self
        location.path.append(step)
        location.place = place.element
        return location
    }

    /// A field of the embedded object that stands here.
    func appending(_ field: Place, named name: [UInt8]) -> Location {
        var location = self
        location.path.append(.name(name))
        location.place = field
        location.embeddedClass = field.owner
        return location
    }

    /// The list or dictionary whose element this is.
    var container: Location {
        var location = self
        location.path.removeLast()
        return location
    }
}

extension GraphEditor {
    func content(_ place: Place, of fields: Fields) -> Content {
        graph.content(place.slot, of: fields, in: schema[place.owner])
    }
}

extension Content {
    /// The content as instructions carry it. For a link this is null: callers handle links themselves.
    var payload: Payload {
        get throws(ApplyError) { try read().payloadInMemory }
    }

    private var payloadInMemory: Payload {
        switch self {
        case .null, .link: .null
        case .int(let value): .int(value)
        case .bool(let value): .bool(value)
        case .string(let text): .string(text)
        case .binary(let bytes): .binary(bytes)
        case .timestamp(let value): .timestamp(value)
        case .float(let value): .float(value)
        case .double(let value): .double(value)
        case .decimal(let value): .decimal(value)
        case .objectID(let value): .objectID(value)
        case .uuid(let value): .uuid(value)
        case .object: .objectValue
        case .list: .list
        case .dictionary: .dictionary
        case .set: .set
        case .stored(let value): value.isText ? .string([]) : .binary([])
        }
    }
}
