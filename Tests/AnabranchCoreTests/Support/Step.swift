import AnabranchCore
import AnabranchTesting

typealias Step = NamedInstruction
typealias Place = FieldPath
typealias Element = FieldPath.Element
typealias StringOrder = ChangesetWriter.StringOrder

func changeset(_ steps: [Step], strings order: StringOrder = .first) -> [UInt8] {
    ChangesetWriter(steps, strings: order).bytes
}

func changeset(_ steps: Step..., strings order: StringOrder = .first) -> [UInt8] { changeset(steps, strings: order) }

extension Payload {
    static func text(_ value: String) -> Payload { .string(Array(value.utf8)) }
    static func link(_ className: String, _ key: Int64) -> Payload {
        .link(className: Array(className.utf8), key: .int(key))
    }
}

extension Hex {
    /// The bytes of hexadecimal digits that stand in a test; white space between them counts for nothing.
    static func bytes(_ text: String) -> [UInt8] { decode(text.filter { !$0.isWhitespace }) ?? [] }
}
