public import AnabranchCore

/// The content of a changeset whose application to a state is timed.
public enum ApplyWorkload: String, CaseIterable {
    /// Creates objects and sets one Int field of each.
    case createSet = "create-set"
    /// Inserts elements at random places of a list.
    case listInsert = "list-insert"
    /// Inserts, moves, sets and erases elements at random places of a list.
    case listEdit = "list-edit"

    /// The size of a workload.
    public struct Size {
        /// The number of objects that are created.
        public var objects = 200_000
        /// The number of elements in the list at the start.
        public var list = 100_000
        /// The number of operations on the list.
        public var operations = 200_000

        /// The size that `anabranch-lab bench apply` takes.
        public init() {}

        /// - Parameters:
        ///   - objects: 1 or more.
        ///   - list: 2 or more.
        ///   - operations: 1 or more.
        public init(objects: Int, list: Int, operations: Int) {
            self.objects = objects
            self.list = list
            self.operations = operations
        }
    }

    /// The state that each workload is applied to.
    public static func start(_ size: Size) throws -> ObjectGraph {
        var start = ObjectGraph()
        _ = try start.write(as: 1) { transaction in
            try transaction.addClass("Doc", key: "_id", .int)
            try transaction.addColumn("i", .int, to: "Doc")
            try transaction.addColumn("items", .int, collection: .list, to: "Doc")
            let items = try transaction.create("Doc", key: 1).list("items")
            for number in 0..<size.list { try items.append(.int(Int64(number))) }
        }
        return start
    }

    /// The workload as one changeset, in the form of `Spec/Changeset.md`.
    public func changeset(_ size: Size) -> [UInt8] {
        var changeset = ChangesetWriter()
        switch self {
        case .createSet: create(size.objects, in: &changeset)
        case .listInsert: insert(size, in: &changeset)
        case .listEdit: edit(size, in: &changeset)
        }
        return changeset.bytes
    }

    private func create(_ count: Int, in changeset: inout ChangesetWriter) {
        for key in 2..<count + 2 {
            changeset.createObject("Doc", key)
            changeset.update("Doc", key, "i", to: key)
        }
    }

    private func insert(_ size: Size, in changeset: inout ChangesetWriter) {
        var items = ListWriter(size: size.list)
        var random = SeededRandom(seed: 1)
        for number in 0..<size.operations { items.insert(number, at: random.upTo(items.size), to: &changeset) }
    }

    private func edit(_ size: Size, in changeset: inout ChangesetWriter) {
        var items = ListWriter(size: size.list)
        var random = SeededRandom(seed: 2)
        for number in 0..<size.operations {
            let index = random.below(items.size)
            switch random.below(4) {
            case 0 where items.size > 2: items.erase(at: index, to: &changeset)
            case 1: items.move(from: index, to: (index + 1 + random.below(items.size - 1)) % items.size, to: &changeset)
            case 2: items.set(number, at: index, to: &changeset)
            default: items.insert(number, at: index, to: &changeset)
            }
        }
    }
}
