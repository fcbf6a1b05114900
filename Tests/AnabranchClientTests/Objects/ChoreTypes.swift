import AnabranchClient
import AnabranchCore
import Foundation

// What the tests of objects write and read.

enum Priority: String, SyncedEnum {
    case low, normal, high
}

struct Person: SyncedObject, Hashable {
    var id: Int
    var name = ""
    var age: Int?
}

struct Step: EmbeddedObject, Hashable {
    var title = ""
    var isDone = false
    var substeps: [Step] = []
}

struct Place: Codable, Hashable, Sendable {
    var latitude: Double
    var longitude: Double
}

struct Chore: SyncedObject, Hashable {
    var id: Int
    var title = ""
    var isDone = false
    var priority = Priority.low
    var due: Date?
    var weight = 0.5
    var ratio: Float?
    var blob = Data()
    var token = UUID(uuidString: "00000000-0000-0000-0000-000000000000")
    var mark: ObjectID?
    var price: Decimal128 = 0
    var tags: [String] = []
    var labels: Set<String> = []
    var scores: [String: Int] = [:]
    var steps: [Step] = []
    var first: Step?
    var named: [String: Step?] = [:]
    var owner: Link<Person>?
    var helpers: [Link<Person>] = []
    var likes = Counter()
    var extra = AnyValue.null
    var extras: [AnyValue] = []
    var place: Encoded<Place>?

    static var indexed: [PartialKeyPath<Chore>] { [\.title, \.due, \.isDone, \.priority] }

    var isOpen: Bool { !isDone }
    var name: String { title }
}

extension Chore {
    /// One with something everywhere.
    static func full(_ id: Int) -> Chore {
        Chore(
            id: id, title: "Milk", isDone: true, priority: .high, due: Date(timeIntervalSince1970: -1.5), weight: -2.25,
            ratio: 1.5, blob: Data([0, 255]), token: UUID(uuidString: "01020304-0506-0708-090A-0B0C0D0E0F10"),
            mark: ObjectID("0102030405060708090a0b0c"), price: 12, tags: ["b", "a", "b"], labels: ["x", "y"],
            scores: ["q": 1, "": 2], steps: [Step(title: "go", substeps: [Step(title: "left")])],
            first: Step(title: "first"), named: ["n": Step(title: "named"), "none": nil], owner: Link(id: 1),
            helpers: [Link(id: 1), Link(id: 2), Link(id: 1)], likes: 7,
            extra: ["a": [1, "x", nil, ["deep": true]], "b": 2.5], extras: [1, "one", [2, 3]],
            place: Encoded(Place(latitude: 1, longitude: -2)))
    }
}

/// A store in a file of its own, with two persons.
func withStore<Value>(
    _ types: [any SyncedObject.Type] = [Chore.self], _ body: (SyncedStore) async throws -> Value
) async throws -> Value {
    try await withFolder { path in
        let store = try await SyncedStore(try SyncedReplica(path: path("store")), types)
        try await store.write { tx in
            for id in 1...2 { try tx.insert(Person(id: id, name: "Person \(id)")) }
        }
        let value = try await body(store)
        try await store.close()
        return value
    }
}

/// Expects an `ObjectError`, whose reason has these words in it.
func objectError(_ code: ObjectError.Code, _ words: String..., by body: () async throws -> Void) async -> String? {
    do {
        try await body()
        return "nothing was thrown"
    } catch let error as ObjectError where error.code == code && words.allSatisfy(error.reason.contains) {
        return nil
    } catch {
        return "\(error)"
    }
}
