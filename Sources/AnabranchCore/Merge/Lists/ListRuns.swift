/// Two runs that fit the size of the list and each other, all of whose operations are live (`Spec/Transform.md`,
/// section 13.1).
struct ListRuns: BitwiseCopyable {
    var major: ScratchBuffer<ListOperation>
    var minor: ScratchBuffer<ListOperation>
    /// The size of the list before both.
    var size: UInt32

    var isEmpty: Bool { major.isEmpty || minor.isEmpty }
    var count: Int { major.count + minor.count }
    var pairs: Int { major.count * minor.count }
}

/// Two runs, one of them cut in two parts that are merged with the other one after the other (`Spec/Transform.md`,
/// section 13.5).
struct ListCut: BitwiseCopyable {
    private let runs: ListRuns
    private let cutsMajor: Bool
    private let position: Int
    /// True if the cut is one of few columns, to see whether the major side is discarded soon.
    let isErasing: Bool

    /// Cuts the longer run in the middle, or not far from it at a place where the tags descend.
    init(halvesOf runs: ListRuns) {
        self.runs = runs
        cutsMajor = runs.major.count >= runs.minor.count
        position = Self.middle(cutsMajor ? runs.major : runs.minor)
        isErasing = false
    }

    init(_ runs: ListRuns, firstColumns: Int) {
        self.runs = runs
        cutsMajor = false
        position = firstColumns
        isErasing = true
    }

    private static func middle(_ operations: ScratchBuffer<ListOperation>) -> Int {
        let descends = { position in position > 0 && operations[position - 1].tag > operations[position].tag }
        let middle = operations.count / 2
        for distance in 0..<operations.count / 4 {
            if descends(middle - distance) { return middle - distance }
            if descends(middle + distance) { return middle + distance }
        }
        return middle
    }

    /// The run that is not cut.
    var whole: ScratchBuffer<ListOperation> { cutsMajor ? runs.minor : runs.major }

    /// The first part and the run that is not cut.
    var first: ListRuns {
        var first = runs
        if cutsMajor { first.major = runs.major[0..<position] } else { first.minor = runs.minor[0..<position] }
        return first
    }

    /// The second part, and what the first one has left of the run that is not cut.
    func rest(with survivors: ScratchBuffer<ListOperation>) -> ListRuns {
        let cut = cutsMajor ? runs.major : runs.minor
        let rest = cut[position..<cut.count]
        let size = cut[0..<position].reduce(Int(runs.size)) { $0 + $1.growth }
        return ListRuns(
            major: cutsMajor ? rest : survivors, minor: cutsMajor ? survivors : rest,
            size: UInt32(truncatingIfNeeded: size))
    }
}

/// The operations of a run that are not discarded, side by side in a copy.
struct ListSurvivors: BitwiseCopyable {
    private let run: ScratchBuffer<ListOperation>
    let live: ScratchBuffer<ListOperation>
    /// The state of the memory before the copy.
    let mark: ScratchMemory.Mark

    init(of run: ScratchBuffer<ListOperation>, _ memory: inout ScratchMemory) {
        self.run = run
        mark = memory.mark
        let copy = memory.take(run.count, of: ListOperation.self)
        var count = 0
        for operation in run where !operation.discarded {
            copy[count] = operation
            count += 1
        }
        live = copy[0..<count]
    }

    /// Overwrites the surviving instructions with their merged form.
    func putBack() {
        var next = 0
        for number in run.indices where !run[number].discarded {
            run[number] = live[next]
            next += 1
        }
    }
}
