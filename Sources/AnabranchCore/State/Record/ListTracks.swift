// Follows lists, whose elements have no names, through a log of local changes: which elements the log found, and which
// it inserted itself.

/// A place below an object as it is named for as long as a log goes on: an element of a list by its number.
struct TrackedPlace: Hashable {
    enum Step: Hashable {
        case name([UInt8])
        /// See `ListTrack`.
        case element(Int)
        /// The number of times that the value here was replaced.
        case renewal(Int)
    }

    let className: [UInt8]
    let key: PrimaryKey
    /// The number of times that an object with this key was erased before.
    let life: Int
    var steps: [Step]

    func appending(_ step: Step) -> TrackedPlace {
        var place = self
        place.steps.append(step)
        return place
    }
}

/// One list, from the first change to the last. The elements that were there have the numbers 0, 1, …, those that were
/// inserted -1, -2, ….
struct ListTrack {
    /// An element that the list held before the changes.
    struct Origin: Equatable {
        /// The digest before the changes; nil if it is not known.
        var digest: UInt64?
        /// True if something in it was changed, as others may have done as well.
        var isEdited = false
    }

    /// The numbers of the elements, as far as the changes have shown that there are some.
    private(set) var numbers: [Int] = []
    private var foundCount = 0
    private var insertedCount = 0
    private var isCleared = false
    private var origins: [Int: Origin] = [:]

    /// Records that the list holds at least `count` elements, unless it was cleared.
    mutating func reach(_ count: Int) {
        while !isCleared, numbers.count < count {
            numbers.append(foundCount)
            foundCount += 1
        }
    }

    mutating func clear() { (numbers, isCleared) = ([], true) }

    /// - Returns: the number of the element that an instruction changes; nil if there is none.
    mutating func record(_ instruction: Instruction, at index: Int, replacing digest: UInt64?) -> Int? {
        reach(Int(instruction.priorSize))
        guard instruction.kind != .arrayInsert else {
            insertedCount += 1
            numbers.insert(-insertedCount, at: min(index, numbers.count))
            return -insertedCount
        }
        guard index < numbers.count else { return nil }
        let number = numbers[index]
        switch instruction.kind {
        case .arrayErase:
            recordOrigin(of: number, digest, isEdited: false)
            numbers.remove(at: index)
        case .arrayMove:
            numbers.remove(at: index)
            numbers.insert(number, at: min(Int(instruction.destination), numbers.count))
        default: recordOrigin(of: number, digest, isEdited: false)
        }
        return number
    }

    /// Records a change of something in an element.
    mutating func pass(through index: Int, was digest: UInt64?) -> Int? {
        reach(index + 1)
        guard index < numbers.count else { return nil }
        recordOrigin(of: numbers[index], digest, isEdited: true)
        return numbers[index]
    }

    private mutating func recordOrigin(of number: Int, _ digest: UInt64?, isEdited: Bool) {
        origins[number, default: Origin(digest: digest)].isEdited = isEdited
    }

    /// The elements that the list held before the changes.
    /// - Parameter last: what the list holds after all changes; nil if that is not known.
    func origins(holding last: [UInt64]?) -> [Origin] {
        var track = self
        track.reach(last?.count ?? 0)
        var result = [Origin](repeating: Origin(), count: track.foundCount)
        if let last {
            for (number, digest) in zip(track.numbers, last) where number >= 0 {
                result[number] = Origin(digest: digest)
            }
        }
        for (number, origin) in origins where number >= 0 { result[number] = origin }
        return result
    }
}

/// The lists that a log of local changes touches.
struct ListTracks {
    /// A step from a field to a place.
    enum Step {
        case name([UInt8])
        /// An element of a list; without a number there is none.
        case element(of: TrackedPlace, number: Int?)
    }

    /// The digests of the elements that instructions change, in their order.
    struct ChangedElements {
        private var digests: IndexingIterator<[UInt64]>

        init(_ digests: [UInt64]) { self.digests = digests.makeIterator() }

        /// - Returns: nil where the digest is not known.
        fileprivate mutating func next() -> UInt64? { digests.next().flatMap { $0 == 0 ? nil : $0 } }
    }

    private var tracks: [TrackedPlace: ListTrack] = [:]
    private var lives: [ObjectAddress: Int] = [:]
    private var renewals: [TrackedPlace: Int] = [:]

    /// Records that an object is erased: one created later with the same key is another object.
    mutating func erase(_ className: [UInt8], _ key: PrimaryKey) {
        lives[ObjectAddress(className, key), default: 0] += 1
    }

    /// Applies the effect of an instruction on lists.
    ///
    /// - Parameter changed: the former values of the elements that it changes.
    /// - Returns: the way from the field to its place, and the place.
    mutating func record(
        _ instruction: Instruction, in arena: ChangesetArena, _ changed: inout ChangedElements
    ) -> (steps: [Step], place: TrackedPlace) {
        let name = ObjectAddress(of: instruction, in: arena)
        var place = TrackedPlace(
            className: name.className, key: name.key, life: lives[name] ?? 0,
            steps: [.name(Array(arena.bytes(of: instruction.field)))])
        var steps: [Step] = []
        let path = arena.path(of: instruction)
        for (position, element) in path.enumerated() {
            place = renewed(place)
            guard element.isIndex else {
                let name = Array(arena.bytes(of: element.name))
                steps.append(.name(name))
                place = place.appending(.name(name))
                continue
            }
            let isEdited = position == path.count - 1 && instruction.isElementEdit
            let index = Int(element.index)
            let digest = isEdited && instruction.leavesElement ? nil : changed.next()
            let number =
                isEdited
                ? tracks[place, default: ListTrack()].record(instruction, at: index, replacing: digest)
                : tracks[place, default: ListTrack()].pass(through: index, was: digest)
            steps.append(.element(of: place, number: number))
            // Below a missing element there is nothing either.
            place = place.appending(.element(number ?? .max))
        }
        switch instruction.kind {
        case .update: renewals[place, default: 0] += 1
        case .clear:
            place = renewed(place)
            tracks[place, default: ListTrack()].clear()
        default: break
        }
        return (steps, place)
    }

    private func renewed(_ place: TrackedPlace) -> TrackedPlace {
        renewals[place].map { place.appending(.renewal($0)) } ?? place
    }

    /// The elements that a list held before the changes.
    /// - Parameter last: reads what the list holds after all changes, at a path with the indices of that time.
    func origins(
        of list: TrackedPlace, reading last: ([PathStep]) throws(ApplyError) -> [UInt64]?
    ) throws(ApplyError) -> [ListTrack.Origin] {
        let track = tracks[list] ?? ListTrack()
        let path = lastPath(of: list)
        return track.origins(holding: try path.flatMap { path throws(ApplyError) in try last(path) })
    }

    /// The path of a place after all changes, beginning with the field; nil if the place is gone.
    private func lastPath(of place: TrackedPlace) -> [PathStep]? {
        let name = ObjectAddress(place.className, place.key)
        guard place.life == lives[name] ?? 0 else { return nil }
        var path: [PathStep] = []
        var prefix = TrackedPlace(className: place.className, key: place.key, life: place.life, steps: [])
        for step in place.steps {
            let count: Int? = if case .renewal(let count) = step { count } else { nil }
            guard renewals[prefix] == count else { return nil }
            switch step {
            case .name(let name): path.append(.name(name))
            case .renewal: break
            case .element(let number):
                guard let index = tracks[prefix]?.numbers.firstIndex(of: number) else { return nil }
                path.append(.index(index))
            }
            prefix.steps.append(step)
        }
        return renewals[prefix] == nil ? path : nil
    }
}

extension Instruction {
    /// True if it changes an element of a list, and says how many there were.
    var isElementEdit: Bool {
        switch kind {
        case .arrayInsert, .arrayErase, .arrayMove: true
        case .update: isIndexed
        default: false
        }
    }

    /// True if the element at its place stays as it is, or was not there.
    fileprivate var leavesElement: Bool { kind == .arrayInsert || kind == .arrayMove }
}

extension ChangesetArena {
    /// The number of list elements that an instruction changes: one that it replaces or erases, and those that it is
    /// in.
    func changedElementCount(of instruction: Instruction) -> Int {
        switch instruction.kind {
        case .addTable, .addColumn, .eraseTable, .eraseColumn, .createObject, .eraseObject: 0
        default: path(of: instruction).count(where: \.isIndex) - (instruction.leavesElement ? 1 : 0)
        }
    }
}
