import AnabranchCore

/// The rules of `Spec/Transform.md`, sections 6 and 7.
enum MergeRule: String, CaseIterable {
    case R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, R11, R12, R13, R14, R15, R16, R17, R18, R19, R20, R21, R22, R23, R24
    case R25, R26, R27, R28
    case N1, N2, N3, N4, N5, N6, N7, N8

    /// The reason why no pair of valid instructions can show the rule's effect; nil if pairs can.
    var whyNoEffect: String? {
        guard self == .N4 else { return nil }
        return "a number has nothing inside, and what makes it a collection discards the increment first (R7, R23)"
    }

    /// The rule to which an effect on a pair is due. The pair is of single instructions, so no other can have been it.
    init?(_ first: Instruction, _ second: Instruction, pathCounts: (first: Int, second: Int)) {
        let lengths = (first.kind.length(pathCounts.first), second.kind.length(pathCounts.second))
        if lengths.0 != lengths.1 {
            let (outer, inner) = lengths.0 < lengths.1 ? (first, second) : (second, first)
            self.init(outer: outer, inner: inner)
        } else {
            let kinds =
                first.kind.rawValue >= second.kind.rawValue ? (first.kind, second.kind) : (second.kind, first.kind)
            guard let rule = Self.sameLevel[kinds.0]?[kinds.1] else { return nil }
            self = rule
        }
    }

    private init?(outer: Instruction, inner: Instruction) {
        switch outer.kind {
        case .eraseTable where inner.kind == .addColumn && inner.className != outer.className: self = .R8
        case .eraseColumn where inner.kind == .update: self = .R11
        case .eraseTable: self = .N1
        case .eraseObject: self = .N2
        case .update: self = .N3
        case .addInteger: self = .N4
        case .arrayInsert: self = .N5
        case .arrayMove: self = .N6
        case .arrayErase: self = .N7
        case .clear: self = .N8
        default: return nil
        }
    }

    private static let sameLevel: [InstructionKind: [InstructionKind: MergeRule]] = [
        .addTable: [.addTable: .R1],
        .eraseTable: [.addTable: .R2, .eraseTable: .R3],
        .eraseObject: [.createObject: .R4, .eraseObject: .R5],
        .update: [.update: .R6],
        .addInteger: [.update: .R7],
        .addColumn: [.addColumn: .R9],
        .eraseColumn: [.addColumn: .R10, .eraseColumn: .R12],
        .arrayInsert: [.update: .R13, .arrayInsert: .R14],
        .arrayMove: [.update: .R15, .arrayInsert: .R16, .arrayMove: .R17],
        .arrayErase: [.update: .R18, .arrayInsert: .R19, .arrayMove: .R20, .arrayErase: .R21],
        .clear: [.update: .R22, .addInteger: .R23, .clear: .R24],
        .setInsert: [.clear: .R25, .setInsert: .R26],
        .setErase: [.clear: .R25, .setInsert: .R27, .setErase: .R28],
    ]
}

extension InstructionKind {
    /// `Spec/Transform.md`, section 4.
    fileprivate func length(_ pathCount: Int) -> Int {
        switch self {
        case .addTable, .eraseTable: 1
        case .addColumn, .eraseColumn, .createObject, .eraseObject: 2
        default: 3 + pathCount
        }
    }
}
