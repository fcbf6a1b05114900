import AnabranchCore
import AnabranchQuery
import AnabranchRules

/// The permissions of a user on the objects of a class (`Spec/FlexibleRules.md`, section 2).
struct ClassPermissions: Sendable {
    /// The objects that the user may read.
    let read: ObjectFilter
    /// The objects that the user may change: as they were before, and as they are afterwards.
    let write: ObjectFilter
    /// The objects that the user may create, and those that the user may delete.
    let insert, delete: ObjectFilter

    /// - Parameters:
    ///   - schema: the schema of the class; nil if there was none when the role was made.
    ///   - state: a state that has the class.
    fileprivate init(_ access: Access, on schema: ClassSchema? = nil, in state: ObjectGraph = ObjectGraph()) {
        func filter(_ filter: Filter) -> ObjectFilter {
            if case .always(let isTrue) = filter { return isTrue ? .all : .none }
            guard let schema, let query = try? Query(filter, on: schema, of: state) else { return .none }
            return ObjectFilter(query)
        }
        read = filter(access.read)
        write = filter(access.write)
        insert = filter(access.insert)
        delete = filter(access.delete)
    }

    /// True if the value of a property decides about one of them.
    /// - Parameter slot: the slot of the property in the class.
    func look(at slot: Int) -> Bool { [read, write, insert, delete].contains { $0.looks(at: slot) } }
}

/// The permissions of a user on all objects of a state. They stay the same while classes and columns are added to it.
/// Views of equal rules share it.
package final class ViewRole: Sendable {
    /// The rules that it was made of.
    let source: UserRules
    /// The rules of `source` that can be used in the state. They are stored with the view: a role made of them is the
    /// same.
    let rules: UserRules
    /// `rules` as it is stored.
    let text: String
    /// The schema size of the state.
    let schemaSize: Int
    private let classes: [[UInt8]: ClassPermissions]

    init(_ rules: UserRules, in state: ObjectGraph) {
        source = rules
        self.rules = rules.usable(in: state)
        text = self.rules.text
        schemaSize = state.schemaSize
        var classes: [[UInt8]: ClassPermissions] = [:]
        for schema in state.classes {
            let access = self.rules.access(ofClass: String(decoding: schema.name, as: UTF8.self))
            classes[schema.name] = ClassPermissions(access, on: schema, in: state)
        }
        self.classes = classes
    }

    subscript(className: [UInt8]) -> ClassPermissions {
        classes[className] ?? ClassPermissions(rules.access(ofClass: String(decoding: className, as: UTF8.self)))
    }
}
