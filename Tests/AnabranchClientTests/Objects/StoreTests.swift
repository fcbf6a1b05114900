import AnabranchClient
import AnabranchCore
import Foundation
import Testing

@Suite struct StoreTests {
    @Test func whatIsWrittenIsRead() async throws {
        try await withStore { store async throws in
            try await store.write { tx in
                try tx.insert(Chore.full(1))
                try tx.insert(Chore(id: 2))
            }
            try store.read { objects throws in
                #expect(try objects.get(Chore.self, 1) == .full(1))
                #expect(try objects.find(Chore.self, 2) == Chore(id: 2))
                #expect(try objects.find(Chore.self, 3) == nil)
                #expect(try objects.find(objects.get(Chore.self, 1).owner)?.name == "Person 1")
                #expect(try objects.find(objects.get(Chore.self, 2).owner) == nil)
                #expect(try objects.find(Chore.self, [3, 2, 1]).map(\.id) == [1, 2])
                #expect(try objects.all(Chore.self).map(\.id) == [1, 2])
                #expect(try objects.count(Chore.all) == 2)
                #expect(try objects.values(of: \Chore.title) == ["Milk", ""])
                #expect(try objects.values(of: \Chore.priority) == [.high, .low])
            }
        }
    }

    @Test func aStoreThatIsOpenedAgainHasEverything() async throws {
        try await withFolder { path in
            let store = try await SyncedStore(path("store"), Chore.self)
            try await store.write { tx in
                for id in 1...2 { try tx.insert(Person(id: id)) }
                try tx.insert(Chore.full(1))
            }
            try await store.close()
            let again = try await SyncedStore(path("store"), Chore.self)
            #expect(try again.read { try $0.get(Chore.self, 1) } == .full(1))
            #expect(try again.read { try $0.objects(Chore.where { $0.title == "Milk" }) }.count == 1)
            // Nothing was added: there is nothing more to upload than before.
            #expect(await again.replica.unacknowledged.changesets == 2)
            try await again.close()
        }
    }

    @Test func ofKeysThatAreComposedOtherwiseNoneIsErased() async throws {
        let one = "\u{e9}", other = "e\u{301}"
        try await withStore { store async throws in
            try await store.write { try $0.insert(Chore(id: 1)) }
            try await store.replica.write { tx in
                let scores = try #require(try tx.object("Chore", key: 1)).dictionary("scores")
                for (key, value) in [(one, Int64(1)), (other, 2), ("a", 3)] { try scores.set(.int(value), for: key) }
            }
            func stored() async throws -> [Payload?] {
                try await store.replica.write { tx in
                    let scores = try #require(try tx.object("Chore", key: 1)).dictionary("scores")
                    return [try scores.value(for: one), try scores.value(for: other)]
                }
            }
            #expect(try store.read { try $0.get(Chore.self, 1).scores } == [other: 2, "a": 3])
            try await store.write { try $0.edit(Chore.self, 1) { $0.scores["b"] = 4 } }
            #expect(try await stored() == [1, 2])
            try await store.write { try $0.edit(Chore.self, 1) { $0.scores = [one: 5] } }
            #expect(try await stored() == [1, 5])
            try await store.write { try $0.edit(Chore.self, 1) { $0.scores = ["c": 6] } }
            #expect(try await stored() == [1, nil])
            #expect(try store.read { try $0.get(Chore.self, 1).scores } == [one: 1, "c": 6])
        }
    }

    @Test func aWriteThatFailsHasNotHappened() async throws {
        struct Stop: Error {}
        try await withStore { store async throws in
            await #expect(throws: Stop.self) {
                try await store.write { tx in
                    try tx.insert(Chore(id: 1))
                    throw Stop()
                }
            }
            #expect(try store.read { try $0.count(Chore.all) } == 0)
        }
    }

    @Test func whatIsNotThereOrThereAlreadyIsAnError() async throws {
        try await withStore { store async throws in
            try await store.write { try $0.insert(Chore(id: 1)) }
            #expect(
                await objectError(.exists, "Chore", "1") { try await store.write { try $0.insert(Chore(id: 1)) } }
                    == nil)
            #expect(
                await objectError(.notFound, "Chore", "2") { _ = try store.read { try $0.get(Chore.self, 2) } } == nil)
            #expect(
                await objectError(.notFound, "Chore", "2") {
                    try await store.write { try $0.edit(Chore.self, 2) { $0.title = "x" } }
                } == nil)
            #expect(
                await objectError(.notAllowed, "primary key") {
                    try await store.write { try $0.edit(Chore.self, 1) { $0.id = 3 } }
                } == nil)
            let dangling = await thrown(ApplyError.self) {
                try await store.write { try $0.insert(Chore(id: 4, owner: Link(id: 9))) }
            }
            #expect(dangling?.reason == "the object linked to does not exist")
            #expect(try store.read { try $0.count(Chore.all) } == 1)
        }
    }

    @Test func anEditWritesWhatItChanges() async throws {
        try await withStore { store async throws in
            try await store.write { try $0.insert(Chore.full(1)) }
            let before = await store.replica.unacknowledged.bytes
            try await store.write { tx in
                try tx.edit(Chore.self, 1) { $0.title = "Bread" }
            }
            // One instruction, and the names that it needs.
            #expect(await store.replica.unacknowledged.bytes - before < 40)
            try await store.write { tx in
                try tx.edit(Chore.self, 1) { _ in }
            }
            #expect(await store.replica.unacknowledged.changesets == 4)
            var expected = Chore.full(1)
            expected.title = "Bread"
            #expect(try store.read { try $0.get(Chore.self, 1) } == expected)
        }
    }

    @Test func savingMakesAnObjectLikeTheValue() async throws {
        try await withStore { store async throws in
            try await store.write { tx in
                try tx.save(Chore(id: 1, tags: ["z"], likes: 3))
                try tx.save(Chore.full(1))
            }
            #expect(try store.read { try $0.get(Chore.self, 1) } == .full(1))
            try await store.write { try $0.save(Chore(id: 1)) }
            #expect(try store.read { try $0.get(Chore.self, 1) } == Chore(id: 1))
        }
    }

    /// A form was opened, and somebody else has changed the object meanwhile.
    @Test func savingWhatHasChangedLeavesTheRestAlone() async throws {
        try await withStore { store async throws in
            try await store.write { try $0.insert(Chore(id: 1, title: "a", tags: ["1", "2"])) }
            let old = try store.read { try $0.get(Chore.self, 1) }
            try await store.write { tx in try tx.edit(Chore.self, 1) { $0.isDone = true } }
            var new = old
            new.title = "b"
            try await store.write { [new] tx in try tx.save(new, changedFrom: old) }
            #expect(
                try store.read { try $0.get(Chore.self, 1) }
                    == Chore(id: 1, title: "b", isDone: true, tags: ["1", "2"]))
        }
    }

    @Test func whatIsNoNumberIsLeftAloneAsWell() async throws {
        try await withStore { store async throws in
            try await store.write { try $0.insert(Chore(id: 1, weight: .nan, ratio: .nan)) }
            let old = try store.read { try $0.get(Chore.self, 1) }
            try await store.write { tx in try tx.edit(Chore.self, 1) { ($0.weight, $0.ratio) = (0, 2) } }
            var new = old
            new.title = "b"
            try await store.write { [new] tx in try tx.save(new, changedFrom: old) }
            #expect(try store.read { try $0.get(Chore.self, 1) } == Chore(id: 1, title: "b", weight: 0, ratio: 2))
        }
    }

    @Test func objectsAreDeleted() async throws {
        try await withStore { store async throws in
            try await store.write { tx in
                for id in 1...9 { try tx.insert(Chore(id: id, isDone: id % 2 == 0, owner: Link(id: 1))) }
                #expect(try tx.delete(Chore.self, 1))
                #expect(try !tx.delete(Chore.self, 1))
                #expect(try tx.delete(Chore.where { $0.isDone }) == 4)
                #expect(try tx.delete(Person(id: 1)))
            }
            let left = try store.read { try $0.all(Chore.self) }
            #expect(left.map(\.id) == [3, 5, 7, 9])
            #expect(left.allSatisfy { $0.owner == nil })
        }
    }

    @Test func listsAreChangedInPlace() async throws {
        try await withStore { store async throws in
            try await store.write { tx in
                try tx.insert(Chore(id: 1, tags: ["a", "b", "c"], steps: [Step(title: "x")]))
                let tags = try tx.list(\Chore.tags, of: 1)
                try tags.append("d")
                try tags.move(from: 3, to: 0)
                try tags.remove(at: 1)
                try tags.replace(at: 1, with: "B")
                try tags.insert("i", at: 1)
                #expect(try tags.count == 4)
                let steps = try tx.list(\Chore.steps, of: 1)
                try steps.append(Step(title: "y", substeps: [Step(title: "z")]))
                try steps.replace(at: 0, with: Step(title: "w"))
            }
            let task = try store.read { try $0.get(Chore.self, 1) }
            #expect(task.tags == ["d", "i", "B", "c"])
            #expect(task.steps == [Step(title: "w"), Step(title: "y", substeps: [Step(title: "z")])])
            #expect(
                await objectError(.badQuery) {
                    try await store.write { _ = try $0.list(\Chore.none, of: 1) }
                } == nil)
        }
    }

    @Test func aReadSeesOneMoment() async throws {
        try await withStore { store async throws in
            try await store.write { try $0.insert(Chore(id: 1)) }
            let snapshot = try store.read { snapshot throws in
                #expect(try store.read { try $0.count(Chore.all) } == 1)
                return snapshot
            }
            #expect(await objectError(.notAllowed, "after the read") { _ = try snapshot.count(Chore.all) } == nil)
        }
    }

    @Test func aTransactionReadsWhatItHasWritten() async throws {
        try await withStore { store async throws in
            try await store.write { tx in
                try tx.insert(Chore(id: 1, title: "a"))
                try tx.insert(Chore(id: 2, title: "b"))
            }
            try await store.write { tx in
                try tx.edit(Chore.self, 1) { $0.title = "b" }
                try tx.insert(Chore(id: 3, title: "b"))
                try tx.delete(Chore.self, 2)
                #expect(try tx.find(Chore.self, [4, 3, 2, 1]).map(\.title) == ["b", "b"])
                #expect(try tx.objects(Chore.where { $0.title == "b" }).map(\.id) == [1, 3])
                #expect(try tx.objects(Chore.where { $0.title == "a" }).isEmpty)
                #expect(try tx.objects(Chore.all.sorted(by: \.title, ascending: false).limit(1)).map(\.id) == [1])
            }
        }
    }
}

extension Chore {
    /// Leads to nothing that is stored.
    fileprivate var none: [String] { [] }
}
