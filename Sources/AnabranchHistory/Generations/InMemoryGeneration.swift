import AnabranchCore

/// The entries of a bootstrap generation, in memory.
struct InMemoryGeneration: SegmentSource {
    let version: ServerVersion
    /// Nil while it is not complete, and once it is removed.
    var generation: Generation?
    var segments: [(last: ServerVersion, block: [UInt8])] = []

    func segmentEnds(in range: VersionRange) -> [ServerVersion] {
        let ends = segments.map(\.last).filter { $0 > range.base }
        return Array(ends.prefix(ends.count { $0 < range.last } + 1))
    }

    func segmentBlock(endingAt last: ServerVersion) throws(HistoryError) -> [UInt8] {
        if let segment = segments.first(where: { $0.last == last }) { return segment.block }
        throw HistoryError(.storeDamaged, "there is none")
    }
}

extension [InMemoryGeneration] {
    mutating func apply(_ change: GenerationChange) {
        switch change {
        case .append(let version, let last, let block):
            if !contains(where: { $0.version == version }) { append(InMemoryGeneration(version: version)) }
            self[self.count - 1].segments.append((last, block))
        case .publish(let generation):
            for index in indices where self[index].version == generation.version {
                self[index].generation = generation
            }
        case .remove(let version):
            for index in indices where self[index].version == version {
                self[index].generation = nil
                self[index].segments.removeFirst(
                    Swift.min(GenerationChange.removedSegmentsMax, self[index].segments.count))
            }
            removeAll { $0.version == version && $0.segments.isEmpty }
        }
    }
}
