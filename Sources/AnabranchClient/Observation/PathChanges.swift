public import AnabranchCore

/// A place in a store: all of it, a class, an object, or a property of an object.
public struct ObjectPath: Hashable, Sendable, CustomStringConvertible {
    /// The class; nil for the whole store.
    public let className: String?
    /// The object of the class.
    public let key: PrimaryKey?
    /// The property of the object.
    public let property: String?

    /// The whole store.
    public static let store = ObjectPath(className: nil)

    /// All objects of a class.
    public static func `class`(_ type: any SyncedObject.Type) -> ObjectPath { .class(named: type.className) }

    /// All objects of the class with this stored name.
    public static func `class`(named name: String) -> ObjectPath { ObjectPath(className: name) }

    /// The object with an id. Throws `ObjectError` if the id is not a valid key.
    public static func object<Object: SyncedObject>(_ type: Object.Type, _ id: Object.ID) throws -> ObjectPath {
        ObjectPath(className: type.className, key: try id.primaryKey)
    }

    /// One property of an object. Throws `ObjectError` if the id is not a valid key, or the key path names no stored
    /// property.
    public static func property<Object: SyncedObject>(
        _ keyPath: PartialKeyPath<Object>, of id: Object.ID
    ) throws -> ObjectPath {
        ObjectPath(className: Object.className, key: try id.primaryKey, property: try Object._name(of: keyPath))
    }

    /// A path of these parts. A part counts only if those before it are not nil.
    public init(className: String?, key: PrimaryKey? = nil, property: String? = nil) {
        self.className = className
        self.key = className == nil ? nil : key
        self.property = self.key == nil ? nil : property
    }

    /// The parts, each after a slash: `/Chore/5/title`.
    public var description: String {
        "/" + [className, key.map { "\($0)" }, property].compactMap { $0 }.joined(separator: "/")
    }

    /// The number of steps from the whole store.
    fileprivate var depth: Int { property != nil ? 3 : key != nil ? 2 : className != nil ? 1 : 0 }

    /// True if another path is this one or below it.
    fileprivate func contains(_ other: ObjectPath) -> Bool {
        (className == nil || className == other.className) && (key == nil || key == other.key)
            && (property == nil || property == other.property)
    }
}

/// The depth to which the paths below a path are observed.
public enum PathScope: Sendable {
    /// Only the path itself.
    case path
    /// Also the paths directly below it: the classes of the store, the objects of a class, the properties of an object.
    case pathAndChildren
    /// Also everything below these.
    case pathAndDescendants

    fileprivate var depth: Int {
        switch self {
        case .path: 0
        case .pathAndChildren: 1
        case .pathAndDescendants: 3
        }
    }
}

/// A change of an observed path, since the previous report.
public struct PathChange: Equatable, Sendable {
    /// The kind of a change.
    public enum Kind: Sendable {
        /// It was created.
        case created
        /// It, or something in it, has changed.
        case updated
        /// It was deleted.
        case deleted
    }

    /// The origin of a change.
    public enum Origin: Sendable {
        /// This replica.
        case local
        /// Another client, through the server.
        case remote
        /// Both, since the last report.
        case both
    }

    /// The path that has changed.
    public let path: ObjectPath
    /// The kind of the change.
    public let kind: Kind
    /// The origin of the change.
    public let origin: Origin
}

/// The paths that have changed since the last report, each once, in the order of their first changes.
struct PathSource: ChangeSource {
    private let path: ObjectPath
    private let scope: PathScope
    private var classes: [ClassID: ClassSchema] = [:]
    private var hasLooked = false

    init(_ path: ObjectPath, _ scope: PathScope) { (self.path, self.scope) = (path, scope) }

    var interest: Interest {
        switch (path.className, path.key) {
        case (nil, _): .everything
        case (let name?, nil): .classes([Array(name.utf8)])
        case (let name?, let key?): .object(className: Array(name.utf8), key: key)
        }
    }

    /// A first look reports nothing. A later one reports only that everything may have changed, since the state before
    /// is not known any more.
    mutating func look(at state: StoredState, _ classes: _BoundClasses) throws -> [PathChange]? {
        self.classes = Dictionary(uniqueKeysWithValues: state.graph.classes.map { ($0.number, $0) })
        defer { hasLooked = true }
        return hasLooked ? [PathChange(path: path, kind: .updated, origin: .remote)] : []
    }

    mutating func take(_ pending: PendingChanges) throws -> SourceUpdate<[PathChange]> {
        var found: [PathChange] = [], positions: [ObjectPath: Int] = [:]
        for change in pending.changes {
            guard let schema = classes[change.object.classID] else { return .unknown }
            for place in Self.paths(of: change, schema) where path.contains(place.path) {
                guard place.path.depth - path.depth <= scope.depth else { continue }
                if let position = positions[place.path] {
                    found[position] = found[position].joined(with: place)
                } else {
                    positions[place.path] = found.count
                    found.append(place)
                }
            }
        }
        return found.isEmpty ? .nothing : .change(found)
    }

    /// The paths of a change: the store, the class, the object, and its properties that have changed.
    private static func paths(of change: PendingChanges.Change, _ schema: ClassSchema) -> [PathChange] {
        let properties = schema.properties.filter { property in
            guard let before = change.before?.value(of: property), let after = change.after?.value(of: property) else {
                return change.before != nil || change.after != nil
            }
            return !before.isSame(as: after)
        }
        let kind: PathChange.Kind
        switch (change.before, change.after) {
        case (nil, nil): return []
        case (nil, _): kind = .created
        case (_, nil): kind = .deleted
        case (_, _):
            guard !properties.isEmpty else { return [] }
            kind = .updated
        }
        let origin: PathChange.Origin = change.isLocal ? change.isRemote ? .both : .local : .remote
        let name = String(decoding: schema.name, as: UTF8.self), key = change.object.key
        let above = [
            PathChange(path: .store, kind: .updated, origin: origin),
            PathChange(path: .class(named: name), kind: .updated, origin: origin),
            PathChange(path: ObjectPath(className: name, key: key), kind: kind, origin: origin),
        ]
        return above
            + properties.map { property in
                let path = ObjectPath(
                    className: name, key: key, property: String(decoding: property.name, as: UTF8.self))
                return PathChange(path: path, kind: kind, origin: origin)
            }
    }
}

extension PathChange {
    fileprivate func joined(with other: PathChange) -> PathChange {
        PathChange(path: path, kind: kind, origin: origin == other.origin ? origin : .both)
    }
}
