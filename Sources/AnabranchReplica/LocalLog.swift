import AnabranchCore

/// The entries of a replica's log that the server has not confirmed, or has not seen merged (`Spec/History.md`,
/// section 12): their numbers; the bytes are in the store.
struct LocalLog {
    /// Ascending.
    private(set) var versions: [LocalVersion]

    init(_ versions: [LocalVersion]) { self.versions = versions }

    /// Adds an entry. Of successive entries without changes, only the last one is kept.
    /// - Returns: the entry that this one replaces.
    mutating func append(_ version: LocalVersion) -> ClientVersion? {
        let superseded = versions.last.flatMap { $0.bytes == 0 ? $0.number : nil }
        if superseded != nil { versions.removeLast() }
        versions.append(version)
        return superseded
    }

    /// Replaces an entry whose changeset was rewritten.
    mutating func replace(_ version: LocalVersion) {
        let index = position(after: version.number) - 1
        if index >= 0, versions[index].number == version.number { versions[index] = version }
    }

    /// Forgets the entries up to a version.
    mutating func trim(through version: ClientVersion) {
        versions.removeFirst(position(after: version))
    }

    /// The entries above a version.
    func versions(after version: ClientVersion) -> ArraySlice<LocalVersion> { versions[position(after: version)...] }

    /// The newest entry with changes.
    var newestChange: LocalVersion? { versions.last { $0.bytes > 0 } }

    private func position(after version: ClientVersion) -> Int {
        var low = 0, high = versions.count
        while low < high {
            let middle = (low + high) / 2
            if versions[middle].number <= version { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
