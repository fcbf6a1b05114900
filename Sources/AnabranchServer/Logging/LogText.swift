import AnabranchHistory

extension VirtualPath {
    /// The path, cut for the log: a path may be 64 KiB long.
    var abbreviated: String { String(description.prefix(200)) }
}
