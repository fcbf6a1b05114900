import AnabranchClient
import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@Suite struct ObjectQueryTests {
    /// Conditions, and which of the objects 1 to 4 fulfil them.
    @Test func conditionsMeanWhatTheySay() async throws {
        try await withStore { store async throws in
            let now = Date(timeIntervalSince1970: 1000)
            try await store.write { tx in
                try tx.insert(
                    Chore(
                        id: 1, title: "Milk", isDone: true, priority: .high, due: now, tags: ["home", "shop"],
                        labels: ["a"], scores: ["x": 1], steps: [Step(title: "go", isDone: true)], owner: Link(id: 1)))
                try tx.insert(Chore(id: 2, title: "milk and bread", weight: 3, tags: ["work"], owner: Link(id: 2)))
                try tx.insert(Chore(id: 3, title: "Bread", due: now + 10, scores: ["x": 5, "y": 2], likes: 4))
                try tx.insert(
                    Chore(
                        id: 4, steps: [Step(title: "a"), Step(title: "b")], first: Step(title: "f"),
                        helpers: [Link(id: 1), Link(id: 2)], extra: 5))
            }
            try store.read { objects throws in
                func expect(
                    _ ids: [Int], at place: SourceLocation = #_sourceLocation,
                    _ condition: (QueryProperty<Chore>) -> some QueryCondition
                ) throws {
                    let query = Chore.where(condition)
                    #expect(try objects.objects(query).map(\.id) == ids, sourceLocation: place)
                    #expect(try objects.count(query) == ids.count, sourceLocation: place)
                    #expect(try objects.values(of: \.id, in: query) == ids, sourceLocation: place)
                }
                try expect([1]) { $0.title == "Milk" }
                try expect([2, 3, 4]) { $0.title != "Milk" }
                try expect([1]) { $0.isDone }
                try expect([2, 3, 4]) { !$0.isDone }
                try expect([1]) { $0.priority == .high }
                try expect([1, 3]) { $0.due != nil }
                try expect([1]) { $0.due <= now }
                try expect([3]) { $0.due > now }
                try expect([1]) { $0.due.isBetween(now - 1, now + 1) }
                try expect([2]) { $0.weight >= 1 && $0.title.contains("bread") }
                try expect([2, 3]) { $0.title.contains("bread", ignoringCase: true) }
                try expect([1, 2]) { $0.title.hasPrefix("MI", ignoringCase: true) }
                try expect([1]) { $0.title.hasSuffix("lk") }
                try expect([2, 3]) { $0.title.like("*?read", ignoringCase: true) }
                try expect([1, 3]) { $0.title.isIn(["Milk", "Bread", "'"]) }
                try expect([1]) { $0.tags.contains("shop") }
                try expect([1]) { $0.tags.count == 2 }
                try expect([1, 2]) { $0.tags.any.isIn(["home", "work"]) }
                try expect([1]) { $0.labels.contains("a") }
                try expect([3]) { $0.scores["x"] > 1 }
                try expect([1]) { $0.steps.isDone == true }
                try expect([4]) { $0.first.title == "f" }
                try expect([1]) { $0.owner.name == "Person 1" }
                try expect([2]) { $0.owner == Link(id: 2) }
                try expect([3, 4]) { $0.owner == nil }
                try expect([4]) { $0.helpers.name == "Person 2" }
                try expect([3]) { $0.likes == 4 }
                try expect([4]) { $0.extra == 5 }
                try expect([1, 3]) { $0.isDone || $0.id == 3 }
                try expect([2]) { $0.id == 2 && $0.title.hasPrefix("m") }
                try expect([]) { $0.id == 9 }
                try expect([1, 3]) { $0.id.isIn([3, 1, 9]) }
            }
        }
    }

    @Test func textsAndTypesMeanTheSame() async throws {
        try await withStore { store async throws in
            try await store.write { tx in
                for id in 1...6 { try tx.insert(Chore(id: id, title: "t'\"\\$0 \(id % 3)", weight: Double(id))) }
            }
            try store.read { objects throws in
                let text = Chore.where("title == $1 AND weight > $0", 2.0, "t'\"\\$0 1")
                #expect(try objects.objects(text).map(\.id) == [4])
                let quoted = Chore.where("title CONTAINS '$0' AND id IN $0", [1, 2])
                #expect(try objects.objects(quoted).map(\.id) == [1, 2])
                #expect(try objects.objects(Chore.where("weight > 2").where { $0.id < 5 }).map(\.id) == [3, 4])
            }
        }
    }

    @Test func whatMakesNoSenseIsAnError() async throws {
        try await withStore { store async throws in
            func fails(_ query: ObjectQuery<Chore>, _ words: String...) async {
                do {
                    _ = try store.read { try $0.objects(query) }
                    Issue.record("nothing was thrown")
                } catch let error as ObjectError {
                    #expect(error.code == .badQuery)
                    for word in words { #expect(error.reason.contains(word), "\(error.reason)") }
                } catch { Issue.record(error) }
            }
            await fails(Chore.where("nothing == 1"), "Chore", "nothing")
            await fails(Chore.where("title =="), "Chore")
            await fails(Chore.where("id == $1", 1), "$1", "1 values")
            await fails(Chore.where { $0.isOpen }, "leads to no property that is stored")
            await fails(Chore.all.sorted(by: \.isOpen), "leads to no property that is stored")
            // What only gives another name is the property.
            #expect(try store.read { try $0.count(Chore.where { $0.name == "x" }) } == 0)
        }
    }

    @Test func aQuotationMarkWithAnAccentAfterItIsOne() async throws {
        try await withStore { store async throws in
            try await store.write { try $0.insert(Chore(id: 1, title: "\u{301}$0")) }
            let query = Chore.where("title == '\u{301}$0' && id == $0", 1)
            #expect(try store.read { try $0.objects(query).map(\.id) } == [1])
        }
    }

    @Test func theOrderIsThatOfTheValues() async throws {
        try await withStore { store async throws in
            let dates: [Double?] = [5, nil, 1, 5, nil, 3]
            try await store.write { tx in
                for (id, date) in dates.enumerated() {
                    try tx.insert(Chore(id: id, title: "\(9 - id)", due: date.map { Date(timeIntervalSince1970: $0) }))
                }
            }
            try store.read { objects throws in
                #expect(try objects.objects(Chore.all.sorted(by: \.title)).map(\.id) == [5, 4, 3, 2, 1, 0])
                #expect(try objects.objects(Chore.all.sorted(by: \.due)).map(\.id) == [1, 4, 2, 5, 0, 3])
                #expect(
                    try objects.objects(Chore.all.sorted(by: \.due, ascending: false)).map(\.id) == [0, 3, 5, 2, 1, 4])
                for count in 0...6 {
                    for ascending in [true, false] {
                        let all = Chore.all.sorted(by: \.due, ascending: ascending)
                        let ids = try objects.objects(all).map(\.id).prefix(count)
                        #expect(try objects.objects(all.limit(count)).map(\.id) == Array(ids))
                    }
                }
                let twice = Chore.all.sorted(by: \.due).sorted(by: \.title)
                #expect(try objects.objects(twice).map(\.id) == [4, 1, 2, 5, 3, 0])
                #expect(try objects.first(Chore.all.sorted(by: \.title))?.id == 5)
            }
        }
    }

    /// The same objects with indexes and without, whatever was written; also within a transaction.
    @Test(arguments: 0..<30) func indexesChangeNothing(seed: UInt64) async throws {
        try await withStore([Chore.self, Plain.self]) { store async throws in
            var random = SeededRandom(scrambling: seed)
            for _ in 0..<8 {
                let steps = (0..<random.below(12)).map { _ in RandomStep(&random) }
                let queries = (0..<6).map { _ in RandomQuery(&random) }
                try await store.write { tx in
                    for step in steps { try step.carryOut(tx) }
                    for query in queries {
                        #expect(
                            try tx.objects(query.indexed).map(\.id) == tx.objects(query.plain).map(\.id), "seed \(seed)"
                        )
                    }
                }
                try store.read { objects throws in
                    for query in queries {
                        let (ids, expected) = (
                            try objects.objects(query.indexed).map(\.id), try objects.objects(query.plain).map(\.id)
                        )
                        #expect(ids == expected, "seed \(seed): \(query)")
                    }
                }
            }
        }
    }

    /// Like `Chore`, without an index.
    private struct Plain: SyncedObject {
        var id: Int
        var title = ""
        var isDone = false
        var due: Date?
    }

    private struct RandomStep: Sendable {
        let id: Int
        let title: String?
        let isDone: Bool
        let due: Date?
        let isDeletion: Bool

        init(_ random: inout SeededRandom) {
            id = random.below(12)
            title = random.pick([
                nil, "", "a", "b", String(repeating: "x", count: 300), String(repeating: "x", count: 301),
            ])
            isDone = random.isOne(in: 2)
            due = random.isOne(in: 3) ? nil : Date(timeIntervalSince1970: Double(random.below(5)) - 2)
            isDeletion = random.isOne(in: 4)
        }

        func carryOut(_ tx: ObjectTransaction) throws {
            if isDeletion {
                try tx.delete(Chore.self, id)
                try tx.delete(Plain.self, id)
            } else {
                try tx.save(Chore(id: id, title: title ?? "", isDone: isDone, due: due))
                try tx.save(Plain(id: id, title: title ?? "", isDone: isDone, due: due))
            }
        }
    }

    private struct RandomQuery: Sendable {
        let indexed: ObjectQuery<Chore>
        let plain: ObjectQuery<Plain>

        init(_ random: inout SeededRandom) {
            let title = random.pick(["", "a", "b", String(repeating: "x", count: 300)])
            let time = Date(timeIntervalSince1970: Double(random.below(5)) - 2)
            let text = random.pick([
                "title == $0", "title == $0 AND isDone == true", "title == $0 OR due < $1", "due > $1", "due <= $1",
                "due >= $1 AND due < $2", "due == null", "due != null AND isDone == false", "title IN {$0, 'b'}",
                "isDone == false AND title != $0", "NOT title == $0", "due BETWEEN {$1, $2}", "due == $1",
                "TRUEPREDICATE", "title BEGINSWITH 'x' AND due == null", "id == 3 OR title == $0",
            ])
            var (indexed, plain) = (Chore.where(text, title, time, time + 2), Plain.where(text, title, time, time + 2))
            switch random.below(4) {
            case 0: (indexed, plain) = (indexed.sorted(by: \.due), plain.sorted(by: \.due))
            case 1:
                (indexed, plain) = (
                    indexed.sorted(by: \.title, ascending: false), plain.sorted(by: \.title, ascending: false)
                )
            default: break
            }
            if random.isOne(in: 2) {
                let count = random.below(5)
                (indexed, plain) = (indexed.limit(count), plain.limit(count))
            }
            (self.indexed, self.plain) = (indexed, plain)
        }
    }
}
