/// Several nodes do not serve doors yet (`Spec/Nodes.md`, section 6): `serve --shared` refuses apps that have one, so
/// their files are not copied into a shared store either.
extension HistoryCatalog {
    /// Looks through all files.
    /// - Throws: `storeUnusable` for the first file that several nodes cannot have.
    package func requireShareable() throws(HistoryError) {
        guard try hasDoors(nil) else { return }
        var paths: [VirtualPath] = []
        try forEachPath { paths.append($0) }
        for path in paths where try hasDoors(path) {
            throw HistoryError(
                .storeUnusable,
                """
                \(path) is a file of a door (simperium, property-list or files), which is for a server that has its \
                store for itself: leave --shared away
                """)
        }
    }

    /// True if a file, or any if none is named, has records of a door. All files have records of the history itself.
    private func hasDoors(_ path: VirtualPath?) throws(HistoryError) -> Bool {
        try recordTotals(of: path).contains { $0.space != OwnRecord.space }
    }
}
