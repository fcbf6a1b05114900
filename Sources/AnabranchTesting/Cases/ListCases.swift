/// The families of benchmark cases in which both sides edit one list.
struct ListCases {
    /// Selects the random streams.
    var seed: Int

    /// The relative frequencies of one side's operations.
    private struct Mix {
        var insert = 0
        var erase = 0
        var move = 0
        var set = 0
    }

    private enum Edit: CaseIterable {
        case insert, erase, move, set
    }

    func random(_ sizes: [Int]) -> [BenchmarkCase] {
        sizes.flatMap { count in
            [
                random("list-insert-\(count)", 1, Mix(insert: 1), count, size: 100),
                random("list-ins-era-\(count)", 3, Mix(insert: 6, erase: 4), count, size: count),
                random("list-ins-era-set-\(count)", 5, Mix(insert: 5, erase: 3, set: 2), count, size: count),
            ]
        }
    }

    func movesAndTransactions(_ sizes: [Int]) -> [BenchmarkCase] {
        sizes.flatMap { count in
            [
                random("list-move-\(count)", 7, Mix(insert: 7, erase: 2, move: 1), count, size: count),
                random(
                    "list-tx-\(count)x\(count)", 9, Mix(insert: 6, erase: 4), count, size: 100, editsPerChangeset: 1),
            ]
        }
    }

    func patterns(_ sizes: [Int]) -> [BenchmarkCase] {
        sizes.flatMap { count in
            [
                BenchmarkCase(name: "list-hot-\(count)", step: 0) { both(hot(count)) },
                BenchmarkCase(name: "list-gap-\(count)") { both(gap(count)) },
                BenchmarkCase(name: "list-replace-\(count)") { both(replaceEach(count)) },
            ]
        }
    }

    private func both(_ side: [ChangesetWriter]) -> BenchmarkCase.Sides {
        BenchmarkCase.Sides(local: side, incoming: side)
    }

    /// Random edits on both sides, drawn from two streams that follow each other.
    private func random(
        _ name: String, _ stream: Int, _ mix: Mix, _ count: Int, size: Int, editsPerChangeset: Int? = nil
    ) -> BenchmarkCase {
        let side = { (stream: Int) in
            var random = MersenneTwister(seed: seed * 1000 + stream)
            return edits(count, mix, on: size, perChangeset: editsPerChangeset ?? count, &random)
        }
        return BenchmarkCase(name: name) { BenchmarkCase.Sides(local: side(stream), incoming: side(stream + 1)) }
    }

    private func edits(
        _ count: Int, _ mix: Mix, on size: Int, perChangeset: Int, _ random: inout MersenneTwister
    ) -> [ChangesetWriter] {
        var side = ChangesetSequence(editsPerChangeset: perChangeset)
        var list = ListWriter(size: size)
        let weights = [mix.insert, mix.erase, mix.move, mix.set]
        for number in 0..<count {
            let edit = random.choice(of: Edit.allCases, weights: weights)
            switch list.size < 2 ? .insert : edit {
            case .insert: list.insert(number, at: random.upTo(list.size), to: &side.current)
            case .erase: list.erase(at: random.below(list.size), to: &side.current)
            case .move:
                let index = random.below(list.size)
                let destination = random.below(list.size)
                list.move(
                    from: index, to: index == destination ? (destination + 1) % list.size : destination,
                    to: &side.current)
            case .set: list.set(number, at: random.below(list.size), to: &side.current)
            }
            side.count(1)
        }
        return side.finished()
    }

    /// Everything is inserted at index 0, one insertion a changeset.
    private func hot(_ count: Int) -> [ChangesetWriter] {
        var side = ChangesetSequence(editsPerChangeset: 1)
        var list = ListWriter(size: 10)
        for number in 0..<count {
            list.insert(number, at: 0, to: &side.current)
            side.count(1)
        }
        return side.finished()
    }

    /// Alternately erases an element in the middle and inserts another into the gap.
    private func gap(_ count: Int) -> [ChangesetWriter] {
        var side = ChangesetSequence(editsPerChangeset: 4)
        var list = ListWriter(size: count)
        for number in 0..<count {
            if number % 2 == 0 {
                list.erase(at: list.size / 2, to: &side.current)
            } else {
                list.insert(number, at: list.size / 2, to: &side.current)
            }
            side.count(1)
        }
        return side.finished()
    }

    /// Erases one element after the other and inserts another in its place.
    private func replaceEach(_ count: Int) -> [ChangesetWriter] {
        var side = ChangesetSequence(editsPerChangeset: 8)
        var list = ListWriter(size: count)
        for number in 0..<count / 2 {
            list.erase(at: number, to: &side.current)
            list.insert(number, at: number, to: &side.current)
            side.count(2)
        }
        return side.finished()
    }
}

/// The changesets of a side, built up with a number of edits in each.
private struct ChangesetSequence {
    let editsPerChangeset: Int
    var current = ChangesetWriter()
    private var done: [ChangesetWriter] = []
    private var edits = 0

    init(editsPerChangeset: Int) { self.editsPerChangeset = editsPerChangeset }

    mutating func count(_ added: Int) {
        edits += added
        guard edits >= editsPerChangeset else { return }
        done.append(current)
        current = ChangesetWriter()
        edits = 0
    }

    func finished() -> [ChangesetWriter] { edits > 0 ? done + [current] : done }
}
