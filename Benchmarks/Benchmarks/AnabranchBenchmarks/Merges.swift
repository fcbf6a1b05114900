import AnabranchCore
import Benchmark

/// Decoding, merging, encoding and applying the cases that `anabranch cases` writes.
func registerMerges() {
    for mergeCase in BenchmarkCase.all(seed: 0, large: false) {
        let name = mergeCase.name
        // Made when a benchmark first runs: most runs are of a few benchmarks only.
        let input = MergeInput(mergeCase)
        Benchmark("codec decode \(name)") { benchmark in
            for _ in benchmark.scaledIterations { blackHole(try input.pool()) }
        }
        Benchmark("codec encode \(name)") { benchmark in
            let pool = try input.pool()
            benchmark.startMeasurement()
            for _ in benchmark.scaledIterations {
                for changeset in 0..<pool.count { blackHole(pool.encodedAnew(changeset)) }
            }
        }
        Benchmark("transform \(name)") { benchmark in
            for _ in benchmark.scaledIterations {
                var pool = try input.pool()
                benchmark.startMeasurement()
                try input.merge(&pool)
                benchmark.stopMeasurement()
                blackHole(pool)
            }
        }
    }
    registerApplication()
}

/// The text of a list on which both sides worked: merged and applied to both states.
private func registerApplication() {
    for count in [1000, 4000, 16000] {
        Benchmark("merge and apply list-insert-\(count), both directions") { benchmark in
            guard
                let mergeCase = BenchmarkCase.all(seed: 0, large: false).first(where: {
                    $0.name == "list-insert-\(count)"
                })
            else { return benchmark.error("there is no such case") }
            let input = MergeInput(mergeCase)
            let states = try input.states()
            benchmark.startMeasurement()
            for _ in benchmark.scaledIterations {
                var states = states
                var pool = try input.pool()
                try input.merge(&pool)
                for place in input.localPlaces { try states.incoming.apply(place, of: pool) }
                for place in input.incomingPlaces { try states.local.apply(place, of: pool) }
                blackHole(states)
            }
        }
    }
}

/// The changesets of a case, made when they are first asked for.
private final class MergeInput {
    private let mergeCase: BenchmarkCase
    private lazy var sides = mergeCase.tagged()

    init(_ mergeCase: BenchmarkCase) { self.mergeCase = mergeCase }

    var localPlaces: [Int] { Array(sides.local.indices) }
    var incomingPlaces: [Int] { sides.incoming.indices.map { $0 + sides.local.count } }

    func pool() throws -> ChangesetPool {
        var pool = ChangesetPool()
        for side in [sides.local, sides.incoming] {
            for (position, changeset) in side.enumerated() {
                try pool.decode(changeset.bytes, version: UInt64(position + 2), tag: changeset.tag)
            }
        }
        return pool
    }

    func merge(_ pool: inout ChangesetPool) throws {
        try pool.merge(local: localPlaces, incoming: incomingPlaces)
    }

    /// The states of both sides, before they learn of each other: a list of 100 elements, and each side's own changes.
    func states() throws -> (local: ObjectGraph, incoming: ObjectGraph) {
        var base = ObjectGraph()
        _ = try base.write(as: 2) { transaction in
            try transaction.addClass("Doc", key: "_id", .int)
            try transaction.addColumn("items", .int, collection: .list, to: "Doc")
            let list = try transaction.create("Doc", key: .int(1)).list("items")
            for _ in 0..<100 { try list.append(.int(0)) }
        }
        var states = (local: base, incoming: base)
        let pool = try pool()
        for place in localPlaces { try states.local.apply(place, of: pool) }
        for place in incomingPlaces { try states.incoming.apply(place, of: pool) }
        return states
    }
}
