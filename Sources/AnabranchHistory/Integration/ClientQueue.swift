package import AnabranchCore

/// The work that clients have queued, in order of arrival. Finished work is removed from the front, without a look at
/// the rest: millions of elements may follow it.
package struct ClientQueue<Element>: Sequence {
    /// Batches, so that removing the first elements does not move all others. None is empty.
    private var batches: [[Element]] = []
    private static var batchCount: Int { 1_024 }
    private let ident: (Element) -> ClientFileID

    /// - Parameter ident: the client file that an element belongs to.
    package init(of ident: @escaping (Element) -> ClientFileID) { self.ident = ident }

    package private(set) var count = 0

    package func makeIterator() -> some IteratorProtocol<Element> { batches.joined().makeIterator() }

    /// The number of elements of each client file.
    package func counts(from clients: Set<ClientFileID>) -> [ClientFileID: Int] {
        var counts: [ClientFileID: Int] = [:]
        for client in batches.joined().lazy.map(ident) where clients.contains(client) {
            counts[client, default: 0] += 1
        }
        return counts
    }

    package mutating func append(_ element: Element) {
        count += 1
        if let last = batches.indices.last, batches[last].count < Self.batchCount {
            batches[last].append(element)
        } else {
            batches.append([element])
        }
    }

    /// Removes the first elements of client files.
    /// - Parameter counts: how many of each; at most all of them.
    /// - Returns: the removed elements, in order.
    package mutating func removeFirst(_ counts: [ClientFileID: Int]) -> [Element] {
        let total = counts.values.reduce(0, +)
        if total == count { return removeAll() }
        var counts = counts, removed: [Element] = [], kept = ClientQueue(of: ident)
        let seenCount = batches.prefix { batch in
            guard removed.count < total else { return false }
            for element in batch {
                let client = ident(element)
                if let count = counts[client], count > 0 {
                    counts[client] = count - 1
                    removed.append(element)
                } else {
                    kept.append(element)
                }
            }
            return true
        }.count
        batches.replaceSubrange(..<seenCount, with: kept.batches)
        count -= removed.count
        return removed
    }

    /// - Returns: the removed elements, in order.
    package mutating func removeAll() -> [Element] {
        defer { (batches, count) = ([], 0) }
        return batches.count == 1 ? batches[0] : Array(self)
    }
}
