// Edits of the elements of one list that follow each other: the way to the list is gone once for all of them, and what
// was typed or appended in a run goes into the list at once. What they do is said in `CollectionEdits.swift` alone, and
// an edit that is anything but plain is left to the general way.

extension ChangesetApplier {
    /// Applies the instructions after one that edited an element of a list, as long as they do the same.
    ///
    /// - Parameters:
    ///   - rest: The instructions after it; those that were applied, skipped or discarded are taken out.
    ///   - number: The number of the next live instruction in its changeset.
    mutating func applyStretch(
        after first: InstructionIndex, _ rest: inout Range<InstructionIndex>, _ number: inout Int,
        of changeset: ChangesetIndex, skipping isSkipped: (ApplyError) throws(ApplyError) -> Bool
    ) throws(ApplyError) {
        let head = arena[first]
        guard head.editsElement, let next = rest.first, arena[next].editsElement(ofListOf: head) else { return }
        guard var open = openList(of: head) else { return }
        defer { editor.close(open) }
        var latest: Instruction?
        while let index = rest.first {
            let instruction = arena[index]
            guard !instruction.isDiscarded else {
                rest.removeFirst()
                continue
            }
            guard instruction.editsElement(ofListOf: head) else { return }
            do throws(ApplyError) {
                let count = try applyNext(instruction, in: rest, after: latest, &open)
                guard count > 0 else { return }
                latest = arena[index.advanced(by: count - 1)]
                rest.removeFirst(count)
                number += count
            } catch {
                try skip(index, number, of: changeset, after: error, if: isSkipped)
                rest.removeFirst()
                number += 1
            }
        }
    }

    /// Applies an instruction, or several inserts if it begins a run.
    ///
    /// - Parameter latest: The instruction that was applied before.
    /// - Returns: How many were applied; 0 if it is left to the general way, because the object may become too large.
    @inline(__always)
    private mutating func applyNext(
        _ instruction: Instruction, in rest: Range<InstructionIndex>, after latest: Instruction?,
        _ open: inout GraphEditor.OpenList
    ) throws(ApplyError) -> Int {
        guard editor.hasRoom(for: instruction) else { return 0 }
        let place = open.place.element
        if open.isStored { try editor.checkLoadedBytes() }
        let run = plainRun(from: instruction, in: rest, after: latest, of: open)
        let index = Int(instruction.last.index)
        guard run.count > 0 else {
            let effect = try editor.act(on: &open.list, index: index, at: place, elementEdit(instruction))
            if effect == .applied { open.isChanged = true }
            return 1
        }
        if run.count == 1 {
            try open.list.insert(ListElement(content: arena.plainContent(of: instruction)), at: index)
        } else {
            let first = rest.lowerBound
            try open.list.insert(run.count, at: index) {
                ListElement(content: arena.plainContent(of: arena[first.advanced(by: $0)]))
            }
        }
        open.isChanged = true
        editor.grow(by: run.size)
        return run.count
    }

    /// The list whose element an instruction edits; nil if there is none, an error that the next instruction reports.
    private mutating func openList(of instruction: Instruction) -> GraphEditor.OpenList? {
        do throws(ApplyError) {
            let object = try object(of: instruction)
            return editor.open(try place(of: instruction, in: object), of: object)
        } catch {
            return nil
        }
    }

    private func elementEdit(_ instruction: Instruction) -> Edit {
        let priorSize = Int(instruction.priorSize)
        switch instruction.kind {
        case .arrayInsert: return .insert(arena.payload(of: instruction), priorSize: priorSize)
        case .arrayErase: return .erase(priorSize: priorSize)
        case .arrayMove: return .move(to: Int(instruction.destination), priorSize: priorSize)
        default: return .update(arena.payload(of: instruction))
        }
    }

    /// The number of inserts, from an instruction on, that each go directly after the one before, and the size of what
    /// they insert. They are such that `act(on:index:at:_:)` would insert without reading anything else.
    ///
    /// Where leaves have to be read a run begins with one insert alone: all others go to a leaf that was read for it.
    private func plainRun(
        from first: Instruction, in rest: Range<InstructionIndex>, after latest: Instruction?,
        of open: borrowing GraphEditor.OpenList
    ) -> (count: Int, size: Int) {
        let place = open.place.element
        guard first.kind == .arrayInsert, Int(first.priorSize) == open.list.count, first.last.index <= first.priorSize,
            first.isPlain(at: place)
        else { return (0, 0) }
        var (count, size) = (1, first.plainSize)
        if open.isStored, latest.map(first.continues) != true { return (count, size) }
        var previous = first
        for index in rest.dropFirst() {
            let instruction = arena[index]
            guard instruction.continues(previous), instruction.isPlain(at: place),
                editor.hasRoom(for: instruction, after: size)
            else { break }
            count += 1
            size += instruction.plainSize
            previous = instruction
        }
        return (count, size)
    }
}

extension ChangesetArena {
    /// The content that a plain insert inserts.
    @inline(__always)
    fileprivate func plainContent(of instruction: Instruction) -> Content {
        let (word0, word1) = (instruction.word0, instruction.word1)
        switch instruction.type {
        case .int: return .int(Int64(bitPattern: word0))
        case .bool: return .bool(word0 != 0)
        case .string: return .string(Array(content(of: instruction)))
        case .binary: return .binary(Array(content(of: instruction)))
        case .timestamp:
            return .timestamp(
                Timestamp(seconds: Int64(bitPattern: word0), nanoseconds: Int32(truncatingIfNeeded: word1)))
        case .float: return .float(Float(bitPattern: UInt32(truncatingIfNeeded: word0)))
        case .double: return .double(Double(bitPattern: word0))
        case .objectID: return .objectID(ObjectID(low: word0, high: word1))
        case .uuid: return .uuid(UUIDBytes(low: word0, high: word1))
        default: return .null
        }
    }
}

extension GraphEditor {
    /// A list of the current object that was taken out of it to be edited.
    struct OpenList {
        let place: Place
        var list: ContentList
        /// True if leaves may have to be read.
        let isStored: Bool
        var isChanged = false
    }

    /// Takes a list out of an object; nil if the object is not the current one, or holds no list there.
    fileprivate mutating func open(_ place: Place, of object: ObjectReference) -> OpenList? {
        guard current.reference == object, current.exists, place.collection == .list,
            place.slot < current.fields.contents.count, let list = current.fields.contents[place.slot].takeList()
        else { return nil }
        isBelowList = refusals.contains(.danglingOverwrites)
        return OpenList(place: place, list: list, isStored: graph.rows != nil)
    }

    /// Puts it back.
    fileprivate mutating func close(_ open: OpenList) {
        current.fields.contents[open.place.slot] = .list(open.list)
        if open.isChanged { current.isChanged = true }
    }

    /// True if the object cannot become too large by the payload of an edit, and `bytes` before it.
    @inline(__always)
    fileprivate func hasRoom(for instruction: Instruction, after bytes: Int = 0) -> Bool {
        objectBytesMax == .max || current.size + bytes <= objectBytesMax - Edit.growthMax(of: instruction)
    }
}

extension Edit {
    /// At least `growthMax(along:)` of the edit of an element that an instruction makes.
    fileprivate static func growthMax(of instruction: Instruction) -> Int {
        let bytes = instruction.type == .string || instruction.type == .binary ? instruction.bytesCount : 0
        return bytes + initialBytesMax + Schema.primaryKeyBytesMax
    }
}

extension Instruction {
    /// True if its payload is a value that is stored as it is, and that an element of the list can hold: no link, and
    /// none that stands for something else or could be too long.
    @inline(__always)
    fileprivate func isPlain(at place: Place) -> Bool {
        switch type {
        case .int, .bool, .timestamp, .float, .double, .objectID, .uuid: place.isMixed || type == place.type
        case .string, .binary: (place.isMixed || type == place.type) && bytesCount < 1 << 20
        default: false
        }
    }

    /// The `Content.size` of such a value.
    @inline(__always)
    fileprivate var plainSize: Int {
        Content.itemBytes + (type == .string || type == .binary ? bytesCount : 0)
    }

    /// True if it inserts directly after what `previous` has inserted, in the list as that has left it.
    @inline(__always)
    fileprivate func continues(_ previous: Instruction) -> Bool {
        kind == .arrayInsert && !isDiscarded && editsElement(ofListOf: previous)
            && last.index == previous.last.index &+ 1 && priorSize == previous.priorSize &+ 1
    }
}
