/// The files of a store that older versions have named by another spelling of their partition's value than its one text
/// (`Spec/Protocol.md`, section 4.2). All spellings of a value lead to one file; where older versions have made
/// several, each keeps its own spelling until they are joined.
package struct PartitionNames: Sendable {
    /// The files of a value by the value's own path: that of its one text first, then the others in the order of their
    /// bytes. Values whose only file has the value's own path are not here.
    private var files: [VirtualPath: [VirtualPath]] = [:]

    /// Creates the names of a store in which every file has the name of its value.
    package init() {}

    /// Looks through the names of all files.
    package init(of catalog: any HistoryCatalog) throws(HistoryError) {
        try catalog.forEachPath { record($0) }
        try recordValues { path throws(HistoryError) in try catalog.file(path) != nil }
    }

    /// Records a file. Record each once, in the order of the paths.
    package mutating func record(_ path: VirtualPath) {
        let canonical = path.canonical
        if canonical != path { files[canonical, default: []].append(path) }
    }

    /// To be called once, when all files are noted.
    /// - Parameter exists: whether there is a file of just that name.
    package mutating func recordValues(
        _ exists: (VirtualPath) throws(HistoryError) -> Bool
    ) throws(HistoryError) {
        for path in Array(files.keys) where try exists(path) { files[path]?.insert(path, at: 0) }
    }

    /// The file that a path means, whichever spelling it has: the one of just that name where the value has several,
    /// or else the first of the value.
    package func file(at path: VirtualPath) -> VirtualPath { file(at: path, canonical: path.canonical) }

    /// - Parameter canonical: the value of `path.canonical`, for callers that have it.
    package func file(at path: VirtualPath, canonical: VirtualPath) -> VirtualPath {
        guard let files = files[canonical] else { return canonical }
        return files.contains(path) ? path : files.first ?? canonical
    }

    /// The values that have several files: all of each, the one first that stays when they are joined.
    package var duplicates: [[VirtualPath]] {
        files.values.filter { $0.count > 1 }.sorted { $0[0].bytes.lexicographicallyPrecedes($1[0].bytes) }
    }

    /// Records that the file is gone.
    package mutating func remove(_ path: VirtualPath) {
        let canonical = path.canonical
        guard let left = files[canonical]?.filter({ $0 != path }) else { return }
        files[canonical] = left.isEmpty || left == [canonical] ? nil : left
    }
}
