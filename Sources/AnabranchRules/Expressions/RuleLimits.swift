/// The limits of the size of rules (`Spec/FlexibleRules.md`, section 3).
package enum RuleLimits {
    /// The depth to which conditions, and the operators of a field, may be nested.
    package static let depthMax = 10
}
