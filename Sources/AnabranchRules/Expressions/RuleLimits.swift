/// How large rules may be (`Spec/FlexibleRules.md`, section 3).
public enum RuleLimits {
    /// How deep conditions, and the operators of a field, may be nested.
    public static let depthMax = 10
}
