// What the handles of a transaction read, and the places that its errors name.

extension WriteTransaction {
    // MARK: Reading

    /// The content of a place; nil where there is no such element, entry or object.
    func content(at location: Location) throws(ApplyError) -> Content? {
        guard let fields = try editor.fields(of: location.object) else { return nil }
        var content = editor.content(location.field, of: fields)
        var place = location.field
        for step in location.path {
            switch (content, step) {
            case (.list(let list), .index(let index)):
                guard index >= 0, index < list.count else { return nil }
                content = try list[index].content
                place = place.element
            case (.dictionary(let entries), .name(let key)):
                guard let entry = try entries.find(key).element else { return nil }
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

    /// The value that a reader sees at a place: null for a dangling link, the kind of a collection, `objectValue` for
    /// an embedded object.
    func value(at location: Location) throws(ApplyError) -> Payload {
        guard let content = try content(at: location) else { throw located(.invalid("there is nothing"), location) }
        return try payload(of: content)
    }

    func payload(of content: Content) throws(ApplyError) -> Payload {
        guard case .link(let object) = content else { return try content.payload }
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
