import AnabranchCore
import AnabranchTesting

/// Random local transactions.
struct RandomChanges {
    private(set) var random: SeededRandom

    init(_ random: SeededRandom) { self.random = random }

    private mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &random) }

    /// The changes that a client with this state may make; sometimes nothing.
    mutating func data(_ state: ObjectGraph) throws -> [UInt8] {
        var builder = ChangesetWriter()
        var sizes = try Self.listSizes(state)
        for _ in 0..<below(4) {
            let key = Int64(below(4))
            guard let size = sizes[key] else {
                builder.create(key)
                sizes[key] = 0
                continue
            }
            let value = Int64(below(1000))
            switch below(12) {
            case 0:
                builder.erase(key)
                sizes[key] = nil
            case 1, 2: builder.set(key, to: value)
            case 3: builder.add(key, amount: value - 500)
            case 4 where size > 0: builder.listSet(key, at: below(size), to: value, size: size)
            case 5 where size > 0, 6 where size > 0:
                builder.listErase(key, at: below(size), size: size)
                sizes[key] = size - 1
            case 7 where size > 1:
                let index = below(size)
                builder.listMove(key, from: index, to: (index + 1 + below(size - 1)) % size, size: size)
            default:
                builder.listInsert(key, at: below(size + 1), value: value, size: size)
                sizes[key] = size + 1
            }
        }
        return builder.bytes
    }

    /// The sizes of the lists of the objects that there are, by key.
    private static func listSizes(_ state: ObjectGraph) throws -> [Int64: Int] {
        try state.read { read in
            var sizes: [Int64: Int] = [:]
            for key in 0..<4 as Range<Int64> { sizes[key] = try read.object("T", key: .int(key))?.list("l").count }
            return sizes
        }
    }

    /// Classes and link columns come and go while objects use them.
    mutating func schema() -> [UInt8] {
        var builder = ChangesetWriter()
        for _ in 0..<below(4) {
            let key = Int64(below(3)), field = "f\(below(2))", target = "U\(below(2))"
            switch below(8) {
            case 0: builder.addTable(target)
            case 1: builder.eraseTable(target)
            case 2: builder.addColumn("f" + target, linkTo: target)
            case 3: builder.setNull(key, field: "f" + target)
            case 4: builder.create(key, in: target)
            case 5: builder.eraseColumn(field)
            case 6: builder.setNull(key, field: field)
            default: builder.set(key, to: Int64(below(100)))
            }
        }
        return builder.bytes
    }
}
