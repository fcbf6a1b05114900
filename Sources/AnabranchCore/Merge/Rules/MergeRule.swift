/// A rule of the merge, by its code in `Spec/Transform.md`, sections 6 and 7.
public enum MergeRule: String, CaseIterable, Sendable {
    /// A rule between instructions of one level (section 7).
    case R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, R11, R12, R13, R14, R15, R16, R17, R18, R19, R20, R21, R22, R23, R24
    case R25, R26, R27, R28
    /// The effect of an outer instruction on an inner one (section 6).
    case N1, N2, N3, N4, N5, N6, N7, N8

    /// The rule in a sentence, for people.
    public var sentence: String {
        switch self {
        case .R1: "Both added the class: it is there once."
        case .R2: "One erased the class that the other added: it stays erased."
        case .R3: "Both erased the class."
        case .R4: "One erased the object that the other created: it stays erased."
        case .R5: "Both erased the object: the newer erasure counts."
        case .R6:
            """
            Both set the value: the newer one stays, but a chosen value beats a default, and any other value beats an \
            embedded object.
            """
        case .R7: "One set the number that the other added to: the addition counts on top of an older value only."
        case .R8: "One added a column of links to a class that the other erased: the column is lost."
        case .R9: "Both added the column: it is there once."
        case .R10: "One erased the column that the other added: it stays erased."
        case .R11: "A value was written into a column that the other erased: it is lost."
        case .R12: "Both erased the column."
        case .R13: "An insertion moved the element that the other set: the value follows its element."
        case .R14: "Both inserted into the list: in one place, the older element comes first."
        case .R15: "One moved the element that the other set: the value follows its element."
        case .R16: "One moved an element and the other inserted one: places follow the elements."
        case .R17: "Both moved elements of the list: of one element, the newer move counts."
        case .R18: "One erased the element that the other set: the value is lost, and later elements move up."
        case .R19: "One erased an element and the other inserted one: places follow the elements."
        case .R20: "One erased an element and the other moved one: a moved element is erased where it went."
        case .R21: "Both erased elements of the list: the same one goes once, later ones move up."
        case .R22: "One emptied the collection whose place the other set: the newer one counts."
        case .R23: "One emptied a collection where the other added to a number: the addition is lost."
        case .R24: "Both emptied the collection: the newer one counts."
        case .R25: "One changed the set that the other emptied: the change is lost."
        case .R26: "Both put the value into the set: it is there once."
        case .R27: "One put the value into the set that the other took out: the newer one counts."
        case .R28: "Both took the value out of the set."
        case .N1: "One erased the class in which the other changed something: the change is lost."
        case .N2: "One erased the object in which the other changed something: the change is lost."
        case .N3: "One set a new value where the other changed something inside the old one: the change is lost."
        case .N4: "One added to a number where the other changed something inside: the change is lost."
        case .N5: "One inserted an element before the one in which the other changed something: the change follows it."
        case .N6: "One moved an element of the list in which the other changed something: the move is adjusted."
        case .N7:
            """
            One erased an element of the list in which the other changed something: inside that element the change is \
            lost, inside a later one it follows.
            """
        case .N8: "One emptied the collection in which the other changed something: the change is lost."
        }
    }

    /// The rule to which an effect on a pair of instructions is due; nil if none can have an effect on it. The order of
    /// the two does not matter.
    package init?(_ first: Instruction, _ second: Instruction) {
        if first.length != second.length {
            let (outer, inner) = first.length < second.length ? (first, second) : (second, first)
            self.init(outer: outer, inner: inner)
        } else {
            let (higher, lower) =
                first.kind.rawValue >= second.kind.rawValue ? (first.kind, second.kind) : (second.kind, first.kind)
            guard let rule = Self.sameLevel[higher]?[lower] else { return nil }
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
