import AnabranchCore

/// Two concurrent instructions after which the reference's replicas do not end in one state, or cannot go on. This
/// follows from its rules, which this engine keeps byte by byte. Everything else converges.
///
/// `Spec/Transform.md`, section 10, describes each of them; `KnownDivergenceTests` demonstrates it.
package enum KnownDivergence: String, CaseIterable {
    case erasedColumn
    case erasureWithRawEqual
    case moveOutsidePath
    case incrementOfElement
    case clearOfElement
    case clearOfErasedEntry
    case listBesideDictionary
    case collectionMadeTwice
    case embeddedObjectOfEntry
    case equalNumbersInSet
    case linkToErasedClass
    case classOnceInMixed

    /// A description of the two instructions, in one line.
    package var summary: String {
        switch self {
        case .erasedColumn: "EraseColumn, and a list, set, Clear or AddInteger operation on the column or a state"
        case .erasureWithRawEqual: "two SetErase of different strings, binaries or links that can be equal raw (R28)"
        case .moveOutsidePath: "ArrayMove, and something inside an element of the list (N6)"
        case .incrementOfElement:
            "AddInteger of a list element, and ArrayInsert, ArrayMove or ArrayErase (no recorder makes it)"
        case .clearOfElement: "Clear of a collection in a list element, and ArrayInsert, ArrayMove or ArrayErase"
        case .clearOfErasedEntry: "Clear of a collection in a dictionary entry, and the entry erased earlier"
        case .listBesideDictionary:
            "a list and a dictionary operation at one place of a Mixed (no two recorders make them)"
        case .collectionMadeTwice:
            """
            a place of a Mixed made a list or dictionary where it is one, or by two sides (one may be a Clear), and \
            something else that loses to it
            """
        case .embeddedObjectOfEntry: "a new embedded object in a dictionary, and something inside the old one"
        case .equalNumbersInSet: "changes of a set by numbers that it takes for one, but the merge for two, or by NaN"
        case .linkToErasedClass: "EraseTable, and a link to the class that no erased column takes along"
        case .classOnceInMixed: "EraseTable of a class that a Mixed has ever linked to"
        }
    }

    /// The known divergence that two concurrent instructions lead to; nil if there is none.
    static func find(_ first: AuthoredInstruction, _ second: AuthoredInstruction, in made: AuthoredInstructions)
        -> KnownDivergence?
    {
        return OrderedPair(first, second, in: made).divergence ?? OrderedPair(second, first, in: made).divergence
    }
}

/// Two concurrent instructions in one of their orders.
private struct OrderedPair {
    let first: AuthoredInstruction
    let second: AuthoredInstruction
    let made: AuthoredInstructions

    init(_ first: AuthoredInstruction, _ second: AuthoredInstruction, in made: AuthoredInstructions) {
        self.first = first
        self.second = second
        self.made = made
    }

    private var left: Instruction { first.instruction }
    private var right: Instruction { second.instruction }

    var divergence: KnownDivergence? {
        switch left.kind {
        case .eraseColumn: erasesColumnInUse ? .erasedColumn : nil
        case .eraseTable: erasure
        case .setErase where right.kind == .setErase && isSameField && first.path == second.path:
            isRawEqual ? .erasureWithRawEqual : hasEqualNumbers ? .equalNumbersInSet : nil
        case .setInsert where right.kind.changesSet && isSameField && first.path == second.path:
            hasEqualNumbers ? .equalNumbersInSet : nil
        case .arrayMove: isSameField && second.path.count > first.path.count && isSameContainer ? .moveOutsidePath : nil
        case .clear: shiftsElement ? .clearOfElement : isOfErasedEntry ? .clearOfErasedEntry : nil
        case .update: isSameField ? update : nil
        default: nil
        }
    }

    // MARK: Classes and columns

    private var erasesColumnInUse: Bool {
        let isEmbedded = made.name(left.className) == RandomSchema.part.name
        if isEmbedded, right.kind == .addColumn {
            // A new client downloads a state, which has a value of each column in each embedded object.
            return left.className == right.className && left.field == right.field
        }
        guard right.kind.hasPath else { return false }
        if left.className == right.className {
            return left.field == right.field && right.kind != .update
        }
        // The column of an embedded class is on the path, if there is one of its objects.
        return isEmbedded && second.path.contains { !$0.isIndex && $0.name == left.field }
    }

    private var erasure: KnownDivergence? {
        let erased = made.name(left.className)
        guard right.kind.hasPath, left.className != right.className else { return nil }
        if made.target(ofColumn: right) == erased { return right.kind == .update ? nil : .linkToErasedClass }
        return made.target(ofPayload: right) == erased ? .linkToErasedClass : nil
    }

    // MARK: Sets

    /// The arena's raw comparison also asks for equal offsets, which no author can foresee.
    private var isRawEqual: Bool {
        let (left, right) = (made.arena.payload(of: left), made.arena.payload(of: right))
        switch (left, right) {
        case (.string(let left), .string(let right)), (.binary(let left), .binary(let right)):
            return left != right && left.count == right.count
        case (.link(let leftClass, let leftKey), .link(let rightClass, let rightKey)):
            if case .string = leftKey, case .string = rightKey { return leftClass != rightClass || leftKey != rightKey }
            return leftKey == rightKey && leftClass != rightClass
        default: return false
        }
    }

    private var hasEqualNumbers: Bool {
        guard let left = made.arena.payload(of: left).number, let right = made.arena.payload(of: right).number else {
            return false
        }
        if left.isNaN || right.isNaN { return left.isNaN && right.isNaN }
        return self.left.type != self.right.type && left == right
    }

    // MARK: Lists

    /// True if the second instruction changes the indices of a list and the first one names an element of that list.
    private var shiftsElement: Bool {
        isSameField && first.path.last?.isIndex == true && right.kind.changesIndices
            && first.path.count == second.path.count && isSameContainer
    }

    /// True if the second instruction erases, at an earlier time, the entry whose collection the Clear empties: the
    /// merge keeps the Clear, but it cannot be applied where the entry was erased.
    private var isOfErasedEntry: Bool {
        right.kind == .update && right.type == .erased && isSameField && first.path.count == second.path.count
            && isPrefix
            && second.tag < first.tag
    }

    // MARK: Updates

    private var update: KnownDivergence? {
        let isLongerPath = second.path.count > first.path.count
        if left.type == .objectValue, isEntry, isLongerPath, isPrefix { return .embeddedObjectOfEntry }
        guard left.type == .list || left.type == .dictionary, !isLongerPath, isPrefix else { return nil }
        guard second.path.count == first.path.count, second.loses(to: first) else { return nil }
        switch right.kind {
        case .update where right.type != left.type: break
        case .clear where right.collection != (left.type == .list ? .list : .dictionary): break
        default: return nil
        }
        return first.isRepeated ? .collectionMadeTwice : nil
    }

    /// True if the first path ends in a key of a dictionary, not in a field of an embedded object.
    private var isEntry: Bool {
        guard let last = first.path.last, !last.isIndex else { return false }
        return !RandomSchema.embeddedFields.contains(made.name(last.name))
    }

    // MARK: Paths

    private var isSameField: Bool { right.kind.hasPath && left.object == right.object && left.field == right.field }

    /// True if the first path without its last element can be a prefix of the second one after a merge.
    private var isSameContainer: Bool {
        !first.path.isEmpty && zip(first.path.dropLast(), second.path).allSatisfy(canBeSame)
    }

    private var isPrefix: Bool { zip(first.path, second.path).allSatisfy(canBeSame) }

    /// Indices that differ where they are made can be the same after a merge.
    private func canBeSame(_ first: PathElement, _ second: PathElement) -> Bool {
        first == second || first.isIndex && second.isIndex
    }
}

extension InstructionKind {
    /// True for the erasure of a class or column, which meets instructions on all objects.
    var isErasure: Bool { self == .eraseTable || self == .eraseColumn }
    fileprivate var changesSet: Bool { self == .setInsert || self == .setErase }
    fileprivate var changesIndices: Bool { self == .arrayInsert || self == .arrayMove || self == .arrayErase }
}

extension Payload {
    /// The number that a set compares; exact for the numbers of the random world.
    fileprivate var number: Double? {
        switch self {
        case .int(let value): Double(value)
        case .float(let value): Double(value)
        case .double(let value): value
        case .decimal(let value): Double(value.description) ?? .nan
        default: nil
        }
    }
}
