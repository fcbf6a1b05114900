import AnabranchTesting
import Testing

@testable import AnabranchCore

/// Classes as readers know them.
@Suite struct ClassSchemaTests {
    private static func schema(in graph: ObjectGraph) throws -> ClassSchema {
        try #require(graph.schema(ofClass: Array("A".utf8)))
    }

    /// The place of a class's properties in memory.
    private static func place(in graph: ObjectGraph) throws -> UnsafePointer<Property>? {
        try schema(in: graph).properties.withUnsafeBufferPointer { $0.baseAddress }
    }

    /// The queries of many clients have the properties of a class in common, until it gets others.
    @Test func aClassIsMadeOnce() throws {
        var graph = ObjectGraph()
        _ = try graph.write(as: 2) { tx in
            try tx.addClass("A")
            try tx.addColumn("f", .int, to: "A")
        }
        let before = graph, place = try Self.place(in: graph)
        #expect(try Self.place(in: graph) == place)
        _ = try graph.write(as: 2) { try $0.addColumn("g", .int, to: "A") }
        #expect(try Self.schema(in: graph).properties.map(\.name) == [Array("f".utf8), Array("g".utf8)])
        #expect(try Self.schema(in: before).properties.map(\.name) == [Array("f".utf8)])
        #expect(try Self.place(in: before) == place)
        _ = try graph.write(as: 2) { try $0.eraseColumn("f", of: "A") }
        #expect(try Self.schema(in: graph).properties.map(\.name) == [Array("g".utf8)])
        _ = try graph.write(as: 2) { try $0.eraseClass("A") }
        #expect(graph.schema(ofClass: Array("A".utf8)) == nil && graph.classes.isEmpty)
    }
}
