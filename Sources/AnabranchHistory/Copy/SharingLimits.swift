/// Several nodes do not serve doors yet (`Spec/Nodes.md`, section 6): `serve --shared` refuses apps that have one, so
/// their files are not copied into a shared store either.
extension HistoryCatalog {
    /// Looks through all files.
    /// - Throws: `storeUnusable` for the first file that several nodes cannot have.
    package func requireShareable() throws(HistoryError) {
        guard try !recordTotals(of: nil).isEmpty else { return }
        var paths: [VirtualPath] = []
        try forEachPath { paths.append($0) }
        for path in paths where try !recordTotals(of: path).isEmpty {
            throw HistoryError(
                .storeUnusable,
                """
                \(path) is a file of a door (simperium, property-list or files), which is for a server that has its \
                store for itself: leave --shared away
                """)
        }
    }
}
