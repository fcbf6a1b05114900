import AnabranchCore

// Paths: which objects they lead through, and what is at their end (`Spec/Query.md`, section 5.1).

extension Binder {
    /// - Returns: the path, and whether it ends in `.length` of the elements of a list or set.
    func path(_ path: PropertyPath) throws(QueryError) -> (path: BoundPath, hasLength: Bool) {
        var walk = PathWalk(binder: self, offset: path.place.offset, rest: try steps(path)[...], schema: schema)
        let bound = try walk.bound()
        try rules?.check(bound.path, at: path.place.offset)
        return bound
    }

    /// The steps of a path, or of the argument that stands for it; in a subquery without the variable.
    private func steps(_ path: PropertyPath) throws(QueryError) -> [PropertyPath.Step] {
        var steps = path.steps
        if case .argument(let number) = path.steps.first {
            guard case .path(let text) = try argument(number, path.place) else {
                throw QueryError(.query, at: path.place.offset, "the argument is not a path")
            }
            var parser = try Parser(Array(text.utf8))
            steps = try parser.path().steps
            try parser.expect(.end, as: "the end of the path")
            if case .argument = steps.first {
                throw QueryError(.query, at: path.place.offset, "the argument is not a path")
            }
        }
        guard let variable else { return steps }
        guard case .name(variable) = steps.first else {
            let name = String(excerptOf: variable)
            throw QueryError(.query, at: path.place.offset, "paths in this subquery begin with \(name)")
        }
        return Array(steps.dropFirst())
    }

    func unknown(_ name: [UInt8], in schema: ClassSchema) -> String {
        "\"\(String(excerptOf: schema.name))\" has no property \"\(String(excerptOf: name))\""
    }
}

/// One path, a step at a time.
private struct PathWalk {
    let binder: Binder
    let offset: Int
    var rest: ArraySlice<PropertyPath.Step>
    /// The class of the objects that were reached.
    var schema: ClassSchema
    var steps: [BoundPath.Step] = []
    var isSingle = true

    init(binder: Binder, offset: Int, rest: ArraySlice<PropertyPath.Step>, schema: ClassSchema) {
        self.binder = binder
        self.offset = offset
        self.rest = rest
        self.schema = schema
    }

    mutating func bound() throws(QueryError) -> (path: BoundPath, hasLength: Bool) {
        while case .name(let name)? = rest.popFirst() {
            if name == Array("@links".utf8) {
                try followBacklinks()
            } else {
                guard let property = schema.property(named: name) else {
                    throw error(binder.unknown(name, in: schema) + "; a text has quotation marks")
                }
                guard property.type == .link, property.collection != .dictionary || rest.first != .atKeys else {
                    return try end(at: property)
                }
                try follow(property)
            }
            if rest.isEmpty { return (path(.objects, .link), false) }
        }
        throw error("a property is expected")
    }

    private func error(_ reason: String) -> QueryError { QueryError(.query, at: offset, reason) }

    private func path(_ end: BoundPath.End, _ type: StaticType) -> BoundPath {
        BoundPath(steps: steps, end: end, isSingle: isSingle, type: type)
    }

    // MARK: Links

    /// `@links.Class.property`.
    private mutating func followBacklinks() throws(QueryError) {
        guard case .name(let className)? = rest.popFirst(), case .name(let name)? = rest.popFirst(),
            let origin = binder.classes.schema(ofClass: className), let property = origin.property(named: name),
            property.target == schema.number
        else {
            throw error("@links needs a class and a property of it that links to \"\(String(excerptOf: schema.name))\"")
        }
        steps.append(.backlinks(className: className, property))
        (schema, isSingle) = (origin, false)
    }

    private mutating func follow(_ property: Property) throws(QueryError) {
        guard let target = property.target, let next = binder.classes.schema(of: target) else {
            throw error("\"\(String(excerptOf: property.name))\" links to no class")
        }
        var index: BoundPath.Index?
        switch (property.collection, rest.first) {
        case (.single, _): break
        case (.dictionary, .key(let key)): index = .key(key)
        case (.dictionary, .every), (.list, .every), (.set, .every): index = .every
        case (.list, .index(let position)), (.set, .index(let position)): index = .element(position)
        case (.dictionary, .name(let name)) where name.first != UInt8(ascii: "@"):
            if next.property(named: name) == nil { index = .key(name) }
        default: break
        }
        if index != nil || property.collection != .single && rest.first == .atValues { rest.removeFirst() }
        steps.append(.link(property, index))
        schema = next
        if property.collection != .single { isSingle = false }
    }

    // MARK: The end

    private func end(at property: Property) throws(QueryError) -> (path: BoundPath, hasLength: Bool) {
        let type = property.collection == .dictionary ? StaticType.mixed : StaticType(property.type)
        guard let first = rest.first else { return (path(.property(property, []), type), false) }
        if rest.count > 1, type != .mixed { throw nothing(after: property) }
        switch (property.collection, first) {
        case (.dictionary, .atValues): return (path(.property(property, []), type), false)
        case (.dictionary, .atKeys): return (path(.keys(property), .string), false)
        case (.single, _) where type == .mixed, (.dictionary, .key), (.dictionary, .name), (.dictionary, .every),
            (.list, .index), (.list, .every):
            let indices = rest.map(\.index)
            let isPlain = property.collection == .list && indices == [.every]
            return (path(.property(property, isPlain ? [] : indices), type), false)
        case (.list, .name), (.set, .name):
            guard first.isLength, rest.count == 1, type.holdsText else { throw nothing(after: property) }
            return (path(.property(property, []), type), true)
        default: throw nothing(after: property)
        }
    }

    private func nothing(after property: Property) -> QueryError {
        error(
            "there is nothing after the property \"\(String(excerptOf: property.name))\" that the path could lead to")
    }
}

extension PropertyPath.Step {
    fileprivate static let atKeys = PropertyPath.Step.name(Array("@keys".utf8))
    fileprivate static let atValues = PropertyPath.Step.name(Array("@values".utf8))

    /// True for `length` in any case.
    fileprivate var isLength: Bool {
        if case .name(let name) = self { name.map(\.lowercased) == Array("length".utf8) } else { false }
    }

    /// Within a collection or a Mixed a name is a key.
    fileprivate var index: BoundPath.Index {
        switch self {
        case .every, .argument: .every
        case .index(let position): .element(position)
        case .name(let key), .key(let key): .key(key)
        }
    }
}
