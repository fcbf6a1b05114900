/// A place below a top-level object, as instructions name it.
struct Location {
    let object: ObjectReference
    /// The field of the top-level object.
    let field: Place
    /// What may stand at the place itself.
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

extension WriteTransaction {
    // MARK: Reading

    /// What stands at a place; nil where there is no such element, entry or object.
    func content(at location: Location) throws(ApplyError) -> Content? {
        guard let fields = try editor.fields(of: location.object) else { return nil }
        var content = editor.content(location.field, of: fields)
        var place = location.field
        for step in location.path {
            switch (content, step) {
            case (.list(let list), .index(let index)):
                guard index >= 0, index < list.count else { return nil }
                content = list[index].content
                place = place.element
            case (.dictionary(let entries), .name(let key)):
                guard let entry = entries.find(key).element else { return nil }
                content = entry.content
                place = place.element
            case (.object(let fields), .name(let name)):
                guard let inner = editor.schema[place.target].place(of: name) else { return nil }
                content = editor.content(inner, of: fields)
                place = inner
            default: return nil
            }
        }
        return content
    }

    /// What a reader sees at a place: null for a dangling link, the kind of a collection, `objectValue` for an embedded
    /// object.
    func value(at location: Location) throws(ApplyError) -> Payload {
        guard let content = try content(at: location) else { throw located(.invalid("there is nothing"), location) }
        return try payload(of: content)
    }

    func payload(of content: Content) throws(ApplyError) -> Payload {
        guard case .link(let object) = content else { return content.payload }
        return try editor.exists(object) ? payload(of: object) : .null
    }

    func payload(of object: ObjectReference) -> Payload {
        .link(className: editor.schema[object.classID].name, key: object.key)
    }

    /// The size of the collection at a place, dangling links included.
    func count(at location: Location) throws(ApplyError) -> Int {
        switch try content(at: location) {
        case .list(let list): return list.count
        case .dictionary(let entries): return entries.count
        case .set(let elements): return elements.count
        default: throw located(.invalid("there is no collection"), location)
        }
    }

    // MARK: Errors

    func number(of className: [UInt8]) throws(ApplyError) -> ClassID {
        guard let number = editor.schema.number(of: className) else {
            throw located(.invalid("no such class"), className)
        }
        return number
    }

    /// The error with the place where it happened.
    func located(
        _ error: ApplyError, _ className: [UInt8], key: PrimaryKey? = nil, field: [UInt8]? = nil
    ) -> ApplyError {
        var error = error
        (error.className, error.object, error.field) = (className, key, field)
        return error
    }

    func located(_ error: ApplyError, _ className: String) -> ApplyError { located(error, Array(className.utf8)) }

    func located(_ error: ApplyError, _ object: ObjectReference, field: [UInt8]? = nil) -> ApplyError {
        located(error, editor.schema[object.classID].name, key: object.key, field: field)
    }

    func located(_ error: ApplyError, _ location: Location) -> ApplyError {
        let column = editor.schema[location.object.classID].columns[location.field.slot]
        return located(error, location.object, field: column?.name)
    }
}

extension GraphEditor {
    func content(_ place: Place, of fields: Fields) -> Content {
        graph.content(place.slot, of: fields, in: schema[place.owner])
    }
}

extension Content {
    /// The content as instructions carry it; links are the caller's.
    var payload: Payload {
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
        }
    }
}
