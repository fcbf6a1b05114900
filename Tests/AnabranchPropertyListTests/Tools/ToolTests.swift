import AnabranchPropertyList
import Foundation
import Testing

/// Programs of others read what we write, and we read what they write: random documents come back as the same values.
/// The losses of each tool are listed in `Tool.expected` and in `Spec/PropertyLists.md`, section 5. CPython is asked
/// always, the others by `scripts/property-list-tools`, which also says how many documents.
@Suite struct ToolTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let tools = environment["ANABRANCH_PROPERTY_LIST_TOOLS"].map { names in
        names.split(separator: " ").compactMap { Tool(rawValue: String($0)) }
    }
    private static let count = environment["ANABRANCH_DOCUMENTS"].flatMap { Int($0) } ?? 1000
    private static let seed = environment["ANABRANCH_SEED"].flatMap { UInt64($0) } ?? 1
    /// So many go to a program at once, as one array.
    private static let batchCount = 50

    @Test(arguments: tools ?? [.plistlib], PropertyList.Form.allCases)
    func documentsComeBack(tool: Tool, form: PropertyList.Form) throws {
        let converter = try tool.start()
        for seed in (0..<max(1, Self.count / Self.batchCount)).map({ Self.seed + UInt64($0) }) {
            var generator = RandomPropertyList(seed: seed)
            let documents = (0..<Self.batchCount).map { _ in tool.avoiding(generator.document()) }
            for written in PropertyList.Form.allCases {
                let bytes = try converter.convert(PropertyList.array(documents).encoded(as: form), to: written)
                let values = try #require(try PropertyList(parsing: bytes).array)
                try #require(values.count == documents.count, "seed \(seed)")
                for (number, (value, document)) in zip(values.map(tool.withoutNoise), documents).enumerated() {
                    let expected = tool.expected(document, form, written)
                    guard value != expected else { continue }
                    Issue.record(
                        """
                        \(tool), \(form) to \(written), document \(number): \(difference(expected, value))
                        repeat with ANABRANCH_SEED=\(seed) ANABRANCH_DOCUMENTS=\(Self.batchCount)
                        """)
                    return
                }
            }
        }
    }
}

/// The first leaf in which two values differ.
private func difference(_ left: PropertyList, _ right: PropertyList) -> String {
    switch (left, right) {
    case (.array(let values), .array(let others)) where values.count == others.count:
        return zip(values, others).first { $0 != $1 }.map { difference($0.0, $0.1) } ?? "none"
    case (.dictionary(let values), .dictionary(let others)) where values.map(\.key) == others.map(\.key):
        return zip(values, others).first { $0.value != $1.value }.map { difference($0.0.value, $0.1.value) } ?? "none"
    default: return "\(left) came back as \(right)"
    }
}
