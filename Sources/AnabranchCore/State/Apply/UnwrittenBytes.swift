// The memory that a change needs until its rows are written, in addition to its changeset and what it reads. The names
// in a changeset are short, while the row of a link has the keys of both objects; and a few bytes erase an object with
// millions of links, each with a row to delete.

extension GraphEditor {
    /// Counts the bytes that an instruction adds.
    mutating func countUnwritten(_ bytes: Int) { if graph.rows != nil { graph.unwrittenBytes += bytes } }

    /// Records that the rows of the links in the content will be deleted.
    mutating func countErasure(of content: Content) throws(ApplyError) {
        guard graph.rows != nil else { return }
        try countErasure(ofLinks: try content.linkCount())
    }

    mutating func countErasure(ofLinks count: Int) throws(ApplyError) {
        guard count > 0 else { return }
        countUnwritten(count * Backlink.overheadBytes)
        try checkLoadedBytes()
    }

    /// The same for all stored objects of a class. Objects that are not stored have already been counted.
    mutating func countErasure(ofObjectsOf number: ClassID) throws(ApplyError) {
        guard schema[number].columns.contains(where: { $0?.place.mayHoldLinks ?? true }) else { return }
        var stored = StoredObjects(of: number, in: graph)
        while let (_, fields) = try stored.next() { try countErasure(of: .object(fields)) }
    }
}

extension Place {
    /// True if the place, or one below it, may hold links.
    fileprivate var mayHoldLinks: Bool { isMixed || type == .link }
}

extension Content {
    /// The number of links in the content. Stored leaves without any are not read. Recurses as deep as paths are long.
    func linkCount() throws(ApplyError) -> Int {
        switch self {
        case .link: 1
        case .list(let list): try list.root?.linkCount() ?? 0
        case .dictionary(let entries): try entries.root?.linkCount() ?? 0
        case .set(let elements): try elements.root?.linkCount() ?? 0
        case .object(let fields): try fields.linkCount()
        default: 0
        }
    }
}

extension Fields {
    fileprivate func linkCount() throws(ApplyError) -> Int {
        var count = 0
        for content in contents { count += try content.linkCount() }
        return count
    }
}

extension TreeNode where Element: ContentElement {
    fileprivate func linkCount() throws(ApplyError) -> Int {
        if isStored, stored?.isPlain ?? false { return 0 }
        let node = try loaded()
        var count = 0
        for element in node.elements { count += try element.content.linkCount() }
        for child in node.children { count += try child.linkCount() }
        return count
    }
}
