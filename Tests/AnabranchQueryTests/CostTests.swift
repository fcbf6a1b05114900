import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchQuery

/// The cost of queries: how often they look at values, and how often they ask for classes.
@Suite struct CostTests {
    /// Three objects that all link to each other, with lists.
    private static func state() throws -> ObjectGraph {
        var graph = ObjectGraph()
        _ = try graph.write(as: 2) { tx in
            try tx.addClass("A", key: "_id", .int)
            try tx.addColumn("text", .string, to: "A")
            try tx.addColumn("pattern", .string, to: "A")
            try tx.addColumn("mix", .null, to: "A")
            try tx.addColumn("numbers", .int, collection: .list, to: "A")
            try tx.addColumn("texts", .string, collection: .list, to: "A")
            try tx.addColumn("mixes", .null, collection: .list, to: "A")
            try tx.addColumn("entries", .int, collection: .dictionary, to: "A")
            try tx.addLink("others", to: "A", collection: .list, of: "A")
            try tx.addEmbeddedClass("Place")
            try tx.addColumn("type", .string, to: "Place")
            try tx.addColumn("coordinates", .double, collection: .list, to: "Place")
            try tx.addLink("places", to: "Place", collection: .list, of: "A")
            for key in 1...3 as ClosedRange<Int64> {
                let object = try tx.create("A", key: .int(key))
                let text = Payload.string(Array(repeating: UInt8(ascii: "a"), count: 4_000))
                object["text"] = text
                for _ in 0..<3 { try object.list("mixes").append(text) }
                object["pattern"] = .string(Array("*\(String(repeating: "a", count: 2_000))b".utf8))
                try object.set("mix", to: .dictionary)
                for name in ["x", "y"] {
                    try object.dictionary("mix").set(.list, for: name)
                    try object.dictionary("mix").list(for: name).append(.int(1))
                }
                for number in 0..<200 as Range<Int64> {
                    try object.list("numbers").append(.int(number))
                    try object.list("texts").append(.string(Array("text \(number)".utf8)))
                    try object.dictionary("entries").set(.int(number), for: "key \(number)")
                    let place = try object.list("places").appendObject()
                    place["type"] = .string(Array("Point".utf8))
                    for coordinate in [0.5, 0.5] { try place.list("coordinates").append(.double(coordinate)) }
                }
            }
        }
        _ = try graph.write(as: 2) { tx in
            for object in try tx.objects("A") {
                for key in 1...3 as ClosedRange<Int64> {
                    try object.list("others").append(.link(className: Array("A".utf8), key: .int(key)))
                }
            }
        }
        return graph
    }

    private static func numbers(_ count: Int) -> String {
        "{" + (0..<count).map { "\(-$0 - 1)" }.joined(separator: ", ") + "}"
    }

    private static func texts(_ text: String, _ count: Int, _ separator: String) -> String {
        Array(repeating: text, count: count).joined(separator: separator)
    }

    /// A ring of 999 corners around 0, 0.
    private static var circle: String {
        let points = (0..<999).map { number in
            let angle = Double(number) * 2 * .pi / 999
            return "[\(10 * cos(angle)), \(10 * sin(angle))]"
        }
        return (points + [points[0]]).joined(separator: ", ")
    }

    private static var subqueries: String {
        var text = "$x.text == 'b'"
        for _ in 0..<40 { text = "SUBQUERY($x.others, $x, \(text)).@count == 1" }
        return "SUBQUERY(others, $x, \(text)).@count == 1"
    }

    /// Each would take more than ten times as many, most of them without end.
    private static let endless: [String] = [
        // Collections that are multiplied by each calculation, objects by each step.
        "\(texts("mix[*][*]", 40, " + ")) == 1", "\(texts("others", 40, ".")).text == 'b'", subqueries,
        // Pairs of values.
        "NONE numbers == \(numbers(5_000))", "ALL numbers != ALL \(numbers(5_000))",
        "ANY texts CONTAINS ANY {\(texts("'nothing'", 5_000, ", "))}",
        // A pattern from data, which is tried at each place.
        "text LIKE pattern",
        // Texts that are compared or folded, keys, and corners of a region for each point.
        texts("text == text", 1_000, " and "), texts("text ==[c] text", 1_000, " and "),
        texts("text >= text", 1_000, " and "), texts("entries.@keys == 'none'", 150, " or "),
        texts("mixes.@max == 'b'", 1_000, " or "), texts("ANY mixes < ANY {'a', 'a', 'a'}", 300, " or "),
        "ALL places GEOWITHIN geoPolygon({\(circle)})",
    ]

    @Test(arguments: endless)
    func anObjectIsNotLookedAtWithoutEnd(text: String) throws {
        let state = try Self.state()
        let query = try Query(text, on: "A", of: state)
        let error = #expect(throws: QueryError.self) { try query.objects(in: state, looksMax: 100_000) }
        #expect(error?.kind == .limit)
    }

    @Test(arguments: [
        ("numbers == 199", 2_000), ("NONE numbers == \(numbers(100))", 25_000), ("others.others.text == 'b'", 2_000),
        ("text LIKE '*a*a*b'", 20_000), ("texts CONTAINS '199'", 3_000), ("text CONTAINS pattern", 1_000),
        (texts("text ==[c] 'x'", 1_000, " or "), 100), (texts("text ==[c] pattern", 1_000, " or "), 15_000),
        (texts("numbers[0] == 1", 100, " or "), 500), (texts("others[1].text == 'b'", 100, " or "), 2_000),
    ])
    func ordinaryQueriesLookAtFewValues(text: String, looks: Int) throws {
        let state = try Self.state()
        let query = try Query(text, on: "A", of: state)
        #expect(throws: Never.self) { try query.objects(in: state, looksMax: looks) }
    }

    /// A text of 4,000 bytes is 251 looks, or as many as the bytes that it is compared with.
    @Test(arguments: [
        ("text >= '\(texts("a", 4_000, ""))'", 251), ("text >= '\(texts("a", 160, ""))'", 11),
        ("text IN {'x', '\(texts("a", 4_000, ""))'}", 251), ("text IN {'x', 'y'}", 0),
    ])
    func textsThatAreReadAreCounted(text: String, looks: Int) throws {
        let state = try Self.state()
        let query = try Query(text, on: "A", of: state)
        #expect(throws: Never.self) { try query.objects(in: state, looksMax: looks) }
        if looks > 0 { #expect(throws: QueryError.self) { try query.objects(in: state, looksMax: looks - 1) } }
    }

    /// 12,000 bytes for each of the binary digits of three.
    @Test func textsThatAreSortedAreCountedWithEachComparison() throws {
        let state = try Self.state()
        let query = try Query("ANY mixes < ANY {'a', 'a', 'a'}", on: "A", of: state)
        #expect(throws: QueryError.self) { try query.objects(in: state, looksMax: 1_500) }
        #expect(throws: Never.self) { try query.objects(in: state, looksMax: 1_600) }
    }

    /// Counts who asks for classes, and who reads objects.
    private final class CountingSource: ObjectSource {
        private let state: ObjectGraph
        private(set) var count = 0
        private(set) var readCount = 0

        init(_ state: ObjectGraph) { self.state = state }

        func schema(of number: ClassID) -> ClassSchema? {
            count += 1
            return state.schema(of: number)
        }

        func schema(ofClass name: [UInt8]) -> ClassSchema? {
            count += 1
            return state.schema(ofClass: name)
        }

        var classes: [ClassSchema] { state.classes }

        func contains(_ object: ObjectReference) throws(ApplyError) -> Bool { try state.contains(object) }

        func object(_ reference: ObjectReference) throws(ApplyError) -> StateObject? { try state.object(reference) }

        func forEachObject(
            of classID: ClassID, _ body: (StateObject) throws(ApplyError) -> Void
        ) throws(ApplyError) {
            try state.forEachObject(of: classID) { object throws(ApplyError) in
                readCount += 1
                try body(object)
            }
        }
    }

    @Test func noObjectIsReadBehindOneThatCannotBeAnswered() throws {
        let source = CountingSource(try Self.state())
        let query = try Query("text LIKE pattern", on: "A", of: source)
        let error = #expect(throws: QueryError.self) { try query.objects(in: source, looksMax: 1_000) }
        #expect(error?.kind == .limit)
        #expect(source.readCount == 1)
    }

    /// Of a class with many properties each time takes long.
    @Test(arguments: [
        "others IN {\(texts("obj('A', 1)", 500, ", "))}", "\(texts("others", 500, ".")) == obj('A', 1)",
        texts("others.text == 'b'", 500, " or "),
    ])
    func aClassIsAskedForOnce(text: String) throws {
        let source = CountingSource(try Self.state())
        _ = try Query(text, on: "A", of: source)
        // By its name and by its number; and the class of the query.
        #expect(source.count <= 3)
    }
}
