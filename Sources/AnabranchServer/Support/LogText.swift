import AnabranchHistory

extension VirtualPath {
    /// For logs: a path may be as long as its limit allows, a line should not.
    var abbreviated: String { String(description.prefix(200)) }
}
