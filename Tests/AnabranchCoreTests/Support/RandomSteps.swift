import AnabranchTesting

@testable import AnabranchCore

/// Made-up instructions of all kinds, on few objects, fields and places, so that those of two sides meet often.
struct RandomSteps {
    var random: SeededRandom
    /// Sizes and indices of lists that make sense more often, so that merges are refused less often.
    var isCareful = false
    /// Nothing that a merge can refuse: no elements come, go or move, and paths have indices only. Nothing that is not
    /// a number either, so that few pairs have to meet. For careful steps.
    var isPeaceful = false

    init(seed: UInt64) { random = SeededRandom(seed: seed) }

    mutating func steps(_ count: Int) -> [Step] { (0..<count).map { _ in step() } }

    mutating func step() -> Step {
        switch Int.random(in: 0..<40, using: &random) {
        case 0:
            let tableType = isCareful ? .topLevel : random.pick(TableType.allCases)
            return .addTable(className(), tableType, !isPeaceful && random.isOne(in: 9) ? .string : .int)
        case 1: return .eraseTable(className())
        case 2: return .createObject(object())
        case 3, 4: return .eraseObject(object())
        case 5: return addColumn()
        case 6: return .eraseColumn(className(), field())
        case 7..<15: return .update(place(), value(), isDefault: random.isOne(in: 3), size: size())
        case 15..<18: return .addInteger(place(), Int64.random(in: -3...3, using: &random))
        case 18..<31 where isPeaceful: return .update(element(), value(), size: 5)
        case 18..<23: return .insert(element(), value(), size: size())
        case 23..<27: return .move(element(), to: index(), size: size())
        case 27..<31: return .erase(element(), size: size())
        case 31..<34: return .clear(place(), random.pick(CollectionType.allCases))
        case 34..<37: return .setInsert(place(), value())
        default: return .setErase(place(), value())
        }
    }

    private mutating func addColumn() -> Step {
        let isPlain = isCareful || random.isOne(in: 2)
        let type: PayloadType = isPlain ? .link : random.pick([.int, .null, .string, .link, .uuid])
        return .addColumn(
            className(), field(), type, nullable: type == .null || type == .link && isPlain,
            isPlain ? .single : random.pick(CollectionType.allCases), target: isCareful ? "B" : className())
    }

    private mutating func className() -> String { random.pick(["A", "A", "B", "C"]) }

    private mutating func field() -> String { random.pick(["f", "f", "g"]) }

    private mutating func object() -> ObjectName { ObjectName(className: className(), key: key()) }

    private mutating func key() -> PrimaryKey {
        switch Int.random(in: 0..<12, using: &random) {
        case 0: .null
        case 1: .string(Array("f".utf8))
        case 2: .globalKey(GlobalKey(high: 2, low: 1))
        case 3: .uuid(UUIDBytes(low: 1, high: 2))
        case 4: .objectID(ObjectID(low: 1, high: 2))
        case 5: .int(2)
        default: .int(1)
        }
    }

    private mutating func place() -> Place {
        let count = random.pick([0, 0, 0, 0, 1, 1, 2, 3])
        return Place(object: object(), field: field(), path: (0..<count).map { _ in pathElement() })
    }

    private mutating func element() -> Place {
        var place = place()
        if place.path.count == 3 { place.path.removeLast() }
        place.path.append(.index(index()))
        return place
    }

    private mutating func pathElement() -> Element {
        !isPeaceful && random.isOne(in: isCareful ? 20 : 4) ? .name(random.pick(["x", "f"])) : .index(index())
    }

    private mutating func index() -> UInt32 {
        !isPeaceful && random.isOne(in: isCareful ? 1000 : 30) ? 7 : .random(in: 0..<5, using: &random)
    }

    private mutating func size() -> UInt32 { !isPeaceful && random.isOne(in: isCareful ? 1000 : 30) ? 4 : 5 }

    mutating func value() -> Payload {
        switch Int.random(in: 0..<24, using: &random) {
        case 0: .null
        case 1, 2: .int(Int64.random(in: 0..<2, using: &random))
        case 3: .bool(random.isOne(in: 2))
        case 4, 5: .text(random.pick(["", "f", "x"]))
        case 6: .binary(random.pick([[], [102], [255, 0]]))
        case 7: .timestamp(Timestamp(seconds: -1, nanoseconds: random.pick([0, -1])))
        case 8: .float(random.pick([0, -0.0, 1.5]))
        case 9: .double(random.pick([0, -0.0, 1.5]))
        case 10: !isPeaceful && random.isOne(in: 8) ? .float(.nan) : .float(2)
        case 11: !isPeaceful && random.isOne(in: 8) ? .double(.nan) : .double(2)
        case 12, 13: .decimal(decimal())
        case 14, 15: .link(className: Array(className().utf8), key: key())
        case 16: .objectID(ObjectID(low: random.pick([1, 2]), high: 3))
        case 17: .uuid(UUIDBytes(low: random.pick([1, 2]), high: 3))
        case 18, 19: .objectValue
        case 20: .dictionary
        case 21: .list
        case 22: .set
        default: .erased
        }
    }

    private mutating func decimal() -> Decimal128 {
        random.pick([
            Decimal128(low: 105, high: 0x303E_0000_0000_0000), Decimal128(low: 1050, high: 0x303C_0000_0000_0000),
            Decimal128(low: 0, high: 0xB040_0000_0000_0000), Decimal128(low: 0, high: 0x7800_0000_0000_0000),
            Decimal128(low: 0, high: 0x7C00_0000_0000_0000),
        ])
    }
}
