/// The features that several nodes do not serve yet (`Spec/Nodes.md`, section 6): `serve --shared` refuses apps that
/// have one, so their files are not copied into a shared store either.
extension HistoryCatalog {
    /// Looks through all files.
    /// - Throws: `storeUnusable` for the first file that several nodes cannot have.
    package func requireShareable() throws(HistoryError) {
        var paths: [VirtualPath] = []
        try forEachPath { if $0.partition == nil { paths.append($0) } }
        if let path = paths.first { throw Self.unshareable(path, "flexible sync") }
        guard try !recordTotals(of: nil).isEmpty else { return }
        try forEachPath { paths.append($0) }
        for path in paths where try !recordTotals(of: path).isEmpty {
            throw Self.unshareable(path, "a door (simperium, property-list or files)")
        }
    }

    private static func unshareable(_ path: VirtualPath, _ feature: String) -> HistoryError {
        HistoryError(
            .storeUnusable,
            "\(path) is a file of \(feature), which is for a server that has its store for itself: leave --shared away")
    }
}
