package import AnabranchCore
package import AnabranchRules

/// A question for the objects that somebody sees in a flexible file: those that rules let a user read and, of a client,
/// that its queries ask for.
package struct Sight: Hashable, Sendable {
    private let rules: UserRules
    private let predicates: Predicates?

    /// - Parameter predicates: the queries of a client; nil for all objects that the user may read.
    package init(by rules: UserRules, asking predicates: Predicates? = nil) {
        self.rules = rules
        self.predicates = predicates
    }

    /// The objects of a state that are seen.
    package func objects(in state: ObjectGraph) -> VisibleObjects {
        var view = ClientView(of: 0, role: ViewRole(rules, in: state))
        if let predicates { view.queries = ViewQueries(accepted: predicates, in: state) }
        return VisibleObjects(view: view, areAskedFor: predicates != nil)
    }
}

/// The objects of a state that a user can see, as the view of a client would have them, for inspection only: nothing is
/// kept or sent.
package struct VisibleObjects: Sendable {
    fileprivate let view: ClientView
    fileprivate let areAskedFor: Bool

    /// True if the client sees the object as it is in the state.
    package func include(
        _ object: StateObject, of className: [UInt8], in state: ObjectGraph
    ) throws(HistoryError) -> Bool {
        guard areAskedFor else { return try view.role[className].read.includes(object, in: state) }
        return try view.includes(object, of: className, in: state)
    }
}
