import AnabranchClient
import AnabranchTesting
import ArgumentParser
import Foundation
import Observation

struct BenchObservedCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "observed",
        abstract: "Measure how busy the main thread is with an observed list that changes all the time.",
        discussion: """
            Makes a store of --objects objects and observes them, sorted, with ObservedObjects on the main thread, \
            which after each of its changes looks at the first fifty, as a list on a screen does. Meanwhile another \
            task changes --rate objects a second, --per-transaction in one transaction; every third change moves its \
            object. Prints a JSON line: `changed` a second, `shown` times the list had news, `main_percent` processor \
            time of the main thread in percent of the time, `process_percent` that of the whole process. Exits with \
            1 if the list is not what the store has in the end. Linux.

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
        let query = ListedItem.all.sorted(by: \.rank)
        let list = ShownList(ObservedObjects(query, in: store))
        try await list.wait { $0.results.count == objects }
        let clock = ContinuousClock(), start = clock.now
        let mainStart = ProcessorTime.millisecondsOfThread, processStart = ProcessorTime.milliseconds
        let shownBefore = list.count
        let changed = try await change(store, until: start + .seconds(seconds))
        let duration = (clock.now - start).inMilliseconds
        let main = ProcessorTime.millisecondsOfThread - mainStart
        let process = ProcessorTime.milliseconds - processStart
        let shown = list.count - shownBefore
        let expected = try store.objects(query).map(\.title)
        try await list.wait { $0.results.map(\.title) == expected }
        print(
            String(
                format: #"{"name":"observed","objects":%ld,"changed":%.0f,"shown":%.1f,"main_percent":%.1f,"#
                    + #""process_percent":%.1f}"#, objects, Double(changed) / duration * 1000,
                Double(shown) / duration * 1000, main / duration * 100, process / duration * 100))
    }

    /// Changes objects at the rate, away from the main thread.
    /// - Returns: the number of changes.
    private nonisolated func change(_ store: SyncedStore, until end: ContinuousClock.Instant) async throws -> Int {
        let clock = ContinuousClock(), start = clock.now
        var changed = 0
        while clock.now < end {
            let numbers = changed..<changed + perTransaction, objects = objects
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
        return changed
    }
}

/// An object of the list.
private struct ListedItem: SyncedObject {
    var id: Int
    var rank = 0
    var title = ""
}

/// A list that shows the first objects, and is drawn anew when they change.
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
