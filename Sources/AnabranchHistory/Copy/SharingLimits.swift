/// Several nodes serve some doors only (`Spec/Nodes.md`, section 6): `serve --shared` refuses apps that have another
/// one, so their files are not copied into a shared store either.
extension HistoryCatalog {
    /// Looks through all files.
    /// - Parameter spaces: the doors that several nodes serve.
    /// - Throws: `storeUnusable` for the first file that several nodes cannot have.
    package func requireShareable(withDoors spaces: Set<UInt16> = []) throws(HistoryError) {
        guard try hasDoors(nil, besides: spaces) else { return }
        var paths: [VirtualPath] = []
        try forEachPath { paths.append($0) }
        for path in paths where try hasDoors(path, besides: spaces) {
            throw HistoryError(
                .storeUnusable,
                """
                \(path) is a file of a door (property-list or files), which is for a server that has its store for \
                itself: leave --shared away
                """)
        }
    }

    /// True if a file, or any if none is named, has records of another door. All files have records of the history
    /// itself.
    private func hasDoors(_ path: VirtualPath?, besides spaces: Set<UInt16>) throws(HistoryError) -> Bool {
        try recordTotals(of: path).contains { $0.space != OwnRecord.space && !spaces.contains($0.space) }
    }
}
