package import AnabranchCore

/// An instruction as its author made it, before any merge.
struct AuthoredInstruction {
    /// The number of the replica, or of the side, that made it.
    var author: Int
    var tag: OriginTag
    var instruction: Instruction
    var path: [PathElement]
    /// True if it makes a place of a Mixed the kind of collection that it is already.
    var isRepeated = false
    /// The last version of the server's log that its author knew.
    var base: UInt64 = 0
    /// The changeset of the arena that contains it.
    var changeset: ChangesetIndex = 0
    /// The version of its changeset in the server's log; nil until the server has it.
    var version: UInt64?

    /// True if this one of two Updates or Clears of one place is discarded: the default one (R6), else the older one.
    func loses(to other: AuthoredInstruction) -> Bool {
        instruction.isDefault != other.instruction.isDefault ? instruction.isDefault : tag < other.tag
    }

    /// True if it is part of the server's log up to a version.
    func isKnown(at known: UInt64) -> Bool {
        guard let version else { return false }
        return version <= known
    }
}

extension AuthoredInstruction {
    /// The type of the value or collection that an Update or a Clear puts at its place; nil for other instructions.
    fileprivate var kindPut: PayloadType? {
        switch instruction.kind {
        case .update: instruction.type
        case .clear:
            instruction.collection == .list ? .list : instruction.collection == .dictionary ? .dictionary : .set
        default: nil
        }
    }

    fileprivate var makesCollection: Bool {
        instruction.kind == .update && (instruction.type == .list || instruction.type == .dictionary)
    }
}

/// The instructions that are not known to every replica yet, in the order in which they were made. Names and objects
/// are numbers of one arena, so they can be compared.
package struct AuthoredInstructions {
    private(set) var arena = ChangesetArena()
    private(set) var list: [AuthoredInstruction] = []
    /// The changesets of each author that are not in the server's log yet.
    private var waiting: [Int: [ChangesetIndex]] = [:]
    /// Classes that a Mixed of any replica has ever held a link to.
    private(set) var classesInMixed: Set<String> = []

    /// Starts without instructions.
    package init() {}

    /// Adds a changeset, unless it and a changeset that its author did not know are a known divergence.
    ///
    /// - Returns: The known divergence; nil if there is none.
    package mutating func add(
        _ changeset: [UInt8], by author: Int, tag: OriginTag, base: UInt64
    ) throws -> KnownDivergence? {
        let count = list.count
        let number = try read(changeset, by: author, tag: tag, base: base)
        if let divergence = divergence(from: count) {
            list.removeSubrange(count...)
            return divergence
        }
        for new in list[count...] { if let className = linkInMixed(new) { classesInMixed.insert(className) } }
        waiting[author, default: []].append(number)
        return nil
    }

    /// Appends the instructions of a changeset without checking them for a known divergence.
    @discardableResult
    mutating func read(
        _ changeset: [UInt8], by author: Int, tag: OriginTag, base: UInt64 = 0
    ) throws -> ChangesetIndex {
        let number = try arena.decode(changeset, version: 1, tag: tag)
        list += arena.instructions(of: number).map {
            AuthoredInstruction(
                author: author, tag: tag, instruction: $0, path: arena.path(of: $0), base: base, changeset: number)
        }
        return number
    }

    /// The known divergence of the instructions from an index on, which are the newest and of one author; nil if none.
    private func divergence(from start: Int) -> KnownDivergence? {
        for index in start..<list.count {
            if erasesClassInMixed(list[index].instruction) { return .classOnceInMixed }
            // Most cannot meet, and are passed over without being copied.
            let (object, isErasure) = (list[index].instruction.object, list[index].instruction.kind.isErasure)
            for other in 0..<start
            where list[other].instruction.object == object || isErasure || list[other].instruction.kind.isErasure {
                guard areConcurrent(index, other) else { continue }
                if let divergence = KnownDivergence.find(list[index], list[other], in: self) { return divergence }
            }
            if makesCollectionTwice(index) { return .collectionMadeTwice }
        }
        return nil
    }

    /// Records that the next changesets of an author have entered the server's log, each as one version.
    package mutating func recordUpload(by author: Int, versions: [UInt64]) {
        let uploaded = waiting[author, default: []].prefix(versions.count)
        waiting[author]?.removeFirst(uploaded.count)
        let versions = Dictionary(uniqueKeysWithValues: zip(uploaded, versions))
        for index in list.indices {
            if let version = versions[list[index].changeset] { list[index].version = version }
        }
    }

    /// Forgets the instructions that every replica knows, and knew when it made what others do not know yet.
    mutating func forget(knownToAllAt version: UInt64) {
        let oldestBase = list.lazy.filter { !$0.isKnown(at: version) }.map(\.base).min() ?? version
        list.removeAll { $0.isKnown(at: min(version, oldestBase)) }
    }

    private func erasesClassInMixed(_ instruction: Instruction) -> Bool {
        instruction.kind == .eraseTable && classesInMixed.contains(name(instruction.className))
    }

    /// True if neither author knew the instruction of the other.
    private func areConcurrent(_ first: Int, _ second: Int) -> Bool {
        list[first].author != list[second].author && !list[first].isKnown(at: list[second].base)
            && !list[second].isKnown(at: list[first].base)
    }

    /// `KnownDivergence.collectionMadeTwice`, of three instructions at one place: two sides make it, or empty, the same
    /// kind of collection, which keeps what both did; and something else, put there after the first, loses to the
    /// second. Where it was put it has emptied the collection, elsewhere it has not.
    ///
    /// - Parameter index: One of the three.
    private func makesCollectionTwice(_ index: Int) -> Bool {
        let new = list[index]
        guard new.kindPut != nil else { return false }
        let object = new.instruction.object
        let atPlace = list.indices.filter {
            list[$0].instruction.object == object && list[$0].kindPut != nil && isSamePlace(list[$0], new)
        }
        for second in atPlace where list[second].makesCollection {
            let type = list[second].kindPut
            let others = atPlace.filter { areConcurrent($0, second) }
            for other in others where list[other].kindPut != type && list[other].loses(to: list[second]) {
                for first in others where list[first].kindPut == type {
                    guard [first, second, other].contains(index) else { continue }
                    let isBefore =
                        areConcurrent(first, other)
                        ? list[first].loses(to: list[other]) : first < other
                    if isBefore { return true }
                }
            }
        }
        return false
    }

    /// Treats all indices as equal: those that differ can become the same in a merge.
    private func isSamePlace(_ one: AuthoredInstruction, _ other: AuthoredInstruction) -> Bool {
        one.instruction.object == other.instruction.object && one.instruction.field == other.instruction.field
            && one.path.count == other.path.count
            && zip(one.path, other.path).allSatisfy { $0 == $1 || $0.isIndex && $1.isIndex }
    }

    // MARK: Names

    func name(_ name: NameID) -> String { String(decoding: arena.bytes(of: name), as: UTF8.self) }

    /// The class that a link column links to; nil for other columns.
    func target(ofColumn instruction: Instruction) -> String? {
        RandomSchema.targets[
            RandomSchema.Column(className: name(instruction.className), field: name(instruction.field))]
    }

    /// The class that a payload links to.
    func target(ofPayload instruction: Instruction) -> String? {
        guard instruction.kind.hasPayload, instruction.type == .link,
            case .link(let className, _) = arena.payload(of: instruction)
        else { return nil }
        return String(decoding: className, as: UTF8.self)
    }

    private func linkInMixed(_ made: AuthoredInstruction) -> String? {
        guard let target = target(ofPayload: made.instruction), name(made.instruction.className) != target else {
            return nil
        }
        return self.target(ofColumn: made.instruction) == target ? nil : target
    }
}
