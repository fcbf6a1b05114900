/// How large rules may be (`Spec/FlexibleRules.md`, section 3).
package enum RuleLimits {
    /// How deep conditions, and the operators of a field, may be nested.
    package static let depthMax = 10
}
