/// Random local transactions.
struct RandomChanges {
    private(set) var random: SeededGenerator

    init(_ random: SeededGenerator) { self.random = random }

    private mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &random) }

    /// What a client with this state may do; sometimes nothing.
    mutating func data(_ state: ModelState) -> [UInt8] {
        var builder = ChangesetBuilder()
        var state = state
        for _ in 0..<below(4) {
            let key = Int64(below(4))
            guard let object = state.objects[key] else {
                builder.create(key)
                state.objects[key] = ModelState.Object()
                continue
            }
            let size = object.list.count
            let value = Int64(below(1000))
            switch below(12) {
            case 0:
                builder.erase(key)
                state.objects[key] = nil
            case 1, 2: builder.set(key, to: value)
            case 3: builder.add(key, amount: value - 500)
            case 4 where size > 0: builder.listSet(key, at: below(size), to: value, size: size)
            case 5 where size > 0, 6 where size > 0:
                builder.listErase(key, at: below(size), size: size)
                state.objects[key]?.list.removeLast()
            case 7 where size > 1:
                let index = below(size)
                builder.listMove(key, from: index, to: (index + 1 + below(size - 1)) % size, size: size)
            default:
                builder.listInsert(key, at: below(size + 1), value: value, size: size)
                state.objects[key]?.list.append(value)
            }
        }
        return builder.bytes
    }

    /// Classes and link columns come and go while objects use them.
    mutating func schema() -> [UInt8] {
        var builder = ChangesetBuilder()
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
