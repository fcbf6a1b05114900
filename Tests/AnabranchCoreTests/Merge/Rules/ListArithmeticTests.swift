import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The list rules are stated in `Rules/ListArithmetic.swift`. For every pair of operations on a list of up to five
/// elements the rules for instructions, the grid of lists and the grid of shifts do the same.
@Suite struct ListArithmeticTests {
    /// An operation, and the instruction that it stands for.
    private struct Case: CustomStringConvertible {
        var operation: ListOperation
        var step: Step

        var description: String {
            let (kind, index) = (operation.kind, operation.index)
            switch kind {
            case .move: return "move from \(index) to \(operation.to)"
            case .update, .nested: return "\(kind) \(index) (\(operation.value))"
            case .insert, .erase: return "\(kind) at \(index)"
            }
        }
    }

    private static func cases(size: UInt32, tag: UInt32) -> [Case] {
        var cases: [Case] = []
        func add(
            _ kind: ListOperation.Kind, _ index: UInt32, to: UInt32 = 0, value: ValueKind = .plain, _ step: Step
        ) {
            let operation = ListOperation(index: index, to: to, priorSize: size, tag: tag, kind: kind, value: value)
            cases.append(Case(operation: operation, step: step))
        }
        for index in 0...size { add(.insert, index, .insert(.item(index), size: size)) }
        for index in 0..<size {
            add(.erase, index, .erase(.item(index), size: size))
            for to in 0..<size { add(.move, index, to: to, .move(.item(index), to: to, size: size)) }
            for (value, payload) in [(ValueKind.plain, Payload.int(1)), (.object, .objectValue), (.list, .list)] {
                add(.update, index, value: value, .update(.item(index), payload, size: size))
            }
            add(.nested, index, value: .list, .update(.at("l", .index(index), 0), .int(1), size: 1))
            add(.nested, index, value: .dictionary, .update(.at("l", .index(index), "x"), .int(1)))
        }
        return cases
    }

    private static let ages: [(age: Age, tags: (UInt32, UInt32))] = [
        (.majorOlder, (1, 2)), (.minorOlder, (2, 1)), (.equal, (1, 1)),
    ]

    @Test(arguments: 1...5 as ClosedRange<UInt32>)
    func rulesAndGridsDoTheSame(size: UInt32) throws {
        for (age, tags) in Self.ages {
            for major in Self.cases(size: size, tag: tags.0) {
                for minor in Self.cases(size: size, tag: tags.1) {
                    // What both sides do inside one element is merged before the list.
                    if major.operation.kind == .nested, minor.operation.kind == .nested { continue }
                    try Self.check(major, minor, age)
                }
            }
        }
    }

    private static func check(_ major: Case, _ minor: Case, _ age: Age) throws {
        let pair = "\(major) against \(minor), \(age)"
        let expected = try merged(major, minor, age)
        var grid = (major.operation, minor.operation)
        ListGrid.merge(&grid.0, &grid.1)
        #expect(
            effect(of: grid) == expected,
            "\(pair): the grid of lists (Lists/ListGrid.swift) applies another rule than Rules/PairRules.swift")
        guard major.operation.isShift, minor.operation.isShift else { return }
        #expect(
            effect(of: shifted(major.operation, minor.operation)) == expected,
            """
            \(pair): Lists/ShiftGrid.swift, which has R14, R19 and R21 in a form of its own, does something else than \
            Rules/ListArithmetic.swift. \(RuleForms.tieOfInserts)
            """)
    }

    private static func shifted(_ major: ListOperation, _ minor: ListOperation) -> (ListOperation, ListOperation) {
        var memory = ScratchMemory()
        let columns = memory.take(1, repeating: minor)
        var row = major
        var grid = ShiftGrid(columns: columns, &memory)
        grid.merge(&row)
        grid.finish()
        return (row, columns[0])
    }

    // MARK: Effects

    /// The effect of a pair on an operation; where a discarded one stands means nothing.
    private struct Effect: Equatable {
        var index: UInt32?
        var destination: UInt32?
        var isDirty: Bool
    }

    private static func effect(of pair: (ListOperation, ListOperation)) -> [Effect] {
        [pair.0, pair.1].map {
            let destination = $0.kind == .move && !$0.discarded ? $0.to : nil
            return Effect(index: $0.discarded ? nil : $0.index, destination: destination, isDirty: $0.dirty)
        }
    }

    /// The same pair of instructions, merged by the rules.
    private static func merged(_ major: Case, _ minor: Case, _ age: Age) throws -> [Effect] {
        var meeting = try Meeting([major.step], [minor.step], age)
        try meeting.merge(.everyPair)
        return [meeting.major, meeting.minor].map { changeset in
            let instruction = meeting.arena.instructions(of: changeset).first
            let destination = instruction.flatMap { $0.kind == .arrayMove ? $0.destination : nil }
            return Effect(
                index: instruction.map { meeting.arena.path(of: $0)[0].index }, destination: destination,
                isDirty: meeting.arena.isDirty(changeset))
        }
    }
}
