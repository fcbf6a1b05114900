import AnabranchClient
import AnabranchTesting
import ArgumentParser
import Foundation
import Observation

struct BenchObservedCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "observed",
        abstract: "Measure how busy a process is with an observed list that changes all the time.",
        discussion: """
            Makes a store of --objects objects, of which a task changes --rate a second, --per-transaction in one \
            transaction; every third change moves its object. It does so for --seconds while nobody looks, and as long \
            while the objects are observed, sorted, with ObservedObjects on the main actor, which after each change of \
            the list looks at the first fifty, as a list on a screen does. Prints a JSON line: `changed` a second, \
            `shown` times a second the list had news, `process_percent` processor time of the process in percent of \
            the time, `list_percent` by how much that is more than without the list: the main thread has not been \
            busier with it. Exits with 1 if the list is not what the store has in the end.

            EXAMPLES
              anabranch-lab bench observed
              anabranch-lab bench observed --objects 1000 --rate 200 --seconds 2
            """)

    @Option(help: "How many objects the list has.")
    var objects = 10_000

    @Option(help: "How many objects are changed a second.")
    var rate = 1000

    @Option(help: "How many objects are changed in one transaction.")
    var perTransaction = 10

    @Option(help: "How long it takes.")
    var seconds = 10

    func validate() throws {
        guard objects > 0, rate > 0, perTransaction > 0, seconds > 0 else {
            throw ValidationError("All numbers must be 1 or more.")
        }
    }

    func run() async throws {
        BenchEnvironment.show()
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("anabranch-bench-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let store = try await SyncedStore(folder.appendingPathComponent("store").path, ListedItem.self)
        for first in stride(from: 0, to: objects, by: 1000) {
            let ids = first..<min(first + 1000, objects)
            try await store.write { tx in
                for id in ids { try tx.insert(ListedItem(id: id, rank: id, title: "item \(id)")) }
            }
        }
        try await measure(store)
        try await store.close()
    }

    @MainActor private func measure(_ store: SyncedStore) async throws {
        let unobserved = try await change(store, from: 0)
        let query = ListedItem.all.sorted(by: \.rank)
        let list = ShownList(ObservedObjects(query, in: store))
        try await list.wait { $0.results.count == objects }
        let shownBefore = list.count
        let observed = try await change(store, from: unobserved.changed)
        let expected = try store.objects(query).map(\.title)
        try await list.wait { $0.results.map(\.title) == expected }
        let shown = list.count - shownBefore
        print(
            String(
                format: #"{"name":"observed","objects":%ld,"changed":%.0f,"shown":%.1f,"list_percent":%.1f,"#
                    + #""process_percent":%.1f}"#, objects, Double(observed.changed) / observed.milliseconds * 1000,
                Double(shown) / observed.milliseconds * 1000, observed.percent - unobserved.percent, observed.percent))
    }

    /// The changes within a period, and the processor time that they took.
    private struct Changes {
        var changed = 0
        var milliseconds = 0.0
        var percent = 0.0
    }

    /// Changes objects at the rate, away from the main thread.
    /// - Parameter first: numbers the changes from there on, so that none is one that was made before.
    private nonisolated func change(_ store: SyncedStore, from first: Int) async throws -> Changes {
        let clock = ContinuousClock(), start = clock.now, processStart = ProcessorTime.milliseconds
        var changed = 0
        while clock.now < start + .seconds(seconds) {
            let numbers = first + changed..<first + changed + perTransaction, objects = objects
            try await store.write { tx in
                for number in numbers {
                    try tx.edit(ListedItem.self, number &* 7919 % objects) { item in
                        item.title = "item \(number)"
                        if number % 3 == 0 { item.rank = number &* 104_729 % objects }
                    }
                }
            }
            changed += perTransaction
            try await clock.sleep(until: start + .seconds(1) * changed / rate)
        }
        let milliseconds = (clock.now - start).inMilliseconds
        return Changes(
            changed: changed, milliseconds: milliseconds,
            percent: (ProcessorTime.milliseconds - processStart) / milliseconds * 100)
    }
}

/// An object of the list.
private struct ListedItem: SyncedObject {
    var id: Int
    var rank = 0
    var title = ""
}

/// A list that shows the first objects, and is drawn again when they change.
@MainActor private final class ShownList {
    let objects: ObservedObjects<ListedItem>
    /// The number of times that it was drawn.
    private(set) var count = 0
    private(set) var rows: [String] = []

    init(_ objects: ObservedObjects<ListedItem>) {
        self.objects = objects
        draw()
    }

    private func draw() {
        count += 1
        withObservationTracking {
            rows = objects.results.prefix(50).map(\.title)
        } onChange: { [weak self] in
            // The new value is there after the change, as in the next turn of a view.
            Task { @MainActor in self?.draw() }
        }
    }

    func wait(until isReached: (ObservedObjects<ListedItem>) -> Bool) async throws {
        for _ in 0..<1000 {
            if let error = objects.error { throw error }
            if isReached(objects) { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw LoadError("the list is not what the store has: \(objects.results.count) objects")
    }
}
