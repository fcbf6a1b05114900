package import AnabranchCore

/// A property that queries or roles ask for, or a class that they ask for objects of.
package struct ViewField: Sendable, Hashable {
    package let className: [UInt8]
    /// Nil for the class itself.
    package let name: [UInt8]?
    /// The version since which before-images have it for queries; nil if no query names it.
    package let since: ServerVersion?

    package init(className: [UInt8], name: [UInt8]?, since: ServerVersion?) {
        self.className = className
        self.name = name
        self.since = since
    }
}

/// The properties that decide which objects are in some views: those that before-images have to restore. None is ever
/// removed: a view that is behind may need one that newer views do not use.
struct FieldNames {
    /// By the names of the classes, in addition to the primary keys.
    private(set) var byClass: [[UInt8]: Set<[UInt8]>] = [:]

    /// By the names of the classes and of the properties that queries name, the version since which before-images have
    /// them.
    private var first: [[UInt8]: [[UInt8]: ServerVersion]] = [:]

    init() {}

    init(stored fields: [ViewField]) {
        for field in fields {
            byClass[field.className, default: []].formUnion(field.name.map { [$0] } ?? [])
            if let name = field.name, let since = field.since { first[field.className, default: [:]][name] = since }
        }
    }

    /// True if the before-images of all entries after a version say which objects the queries of a view ask for, in the
    /// classes that its role lets its user read as a whole.
    func decide(_ view: ClientView, since version: ServerVersion) -> Bool {
        view.queries.classNames.allSatisfy { className in
            guard view.role[className].read.isAll else { return true }
            return view.queries[className].fields.allSatisfy { first[className]?[$0] ?? .largest <= version }
        }
    }

    /// Adds the properties that decide about a view.
    /// - Returns: those that were not known, or not for as long.
    mutating func add(_ view: ClientView) -> [ViewField] {
        var added: [ViewField] = []
        for className in view.queries.classNames {
            if byClass[className] == nil {
                byClass[className] = []
                added.append(ViewField(className: className, name: nil, since: nil))
            }
            let asked = view.queries[className].fields
            for field in asked where view.changed < first[className]?[field] ?? .largest {
                first[className, default: [:]][field] = view.changed
                byClass[className, default: []].insert(field)
                added.append(ViewField(className: className, name: field, since: view.changed))
            }
            for field in view.role[className].read.fields.subtracting(byClass[className] ?? []) {
                byClass[className, default: []].insert(field)
                added.append(ViewField(className: className, name: field, since: nil))
            }
        }
        return added
    }
}
