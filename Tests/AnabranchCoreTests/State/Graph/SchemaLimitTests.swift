import AnabranchTesting
import Testing

@testable import AnabranchCore

/// How many classes and columns a state can have had (`Spec/Limits.md`): their numbers are never used again.
@Suite struct SchemaLimitTests {
    @Test func erasedClassesCount() throws {
        var graph = ObjectGraph()
        _ = try graph.write(as: 2) { tx in
            for _ in 0..<Schema.classCountMax {
                try tx.addClass("A")
                try tx.eraseClass("A")
            }
        }
        let error = #expect(throws: ApplyError.self) { try graph.write(as: 2) { try $0.addClass("A") } }
        #expect(error?.code == .invalid)
        #expect(error?.description == "A: there have been too many classes")
    }

    @Test func erasedColumnsCount() throws {
        var graph = ObjectGraph()
        _ = try graph.write(as: 2) { tx in
            try tx.addClass("A")
            try tx.addClass("B")
            for _ in 0..<ClassState.slotCountMax {
                try tx.addColumn("f", .int, to: "A")
                try tx.eraseColumn("f", of: "A")
            }
        }
        let error = #expect(throws: ApplyError.self) { try graph.write(as: 2) { try $0.addColumn("f", .int, to: "A") } }
        #expect(error?.code == .invalid)
        #expect(error?.description == "A.f: there have been too many columns")
        // Another class has room, and the class itself in its next life.
        _ = try graph.write(as: 2) { tx in
            try tx.addColumn("f", .int, to: "B")
            try tx.eraseClass("A")
            try tx.addClass("A")
            try tx.addColumn("f", .int, to: "A")
        }
    }

    /// Of the object of an instruction, of one that is linked to, and of one that is made here.
    @Test("a primary key has so many bytes", arguments: [(-1, true), (0, true), (1, false)])
    func primaryKey(more: Int, isTaken: Bool) throws {
        let count = Schema.primaryKeyBytesMax + more
        let key = PrimaryKey.string(Array(repeating: UInt8(ascii: "k"), count: count))
        let object = ObjectName(className: "B", key: key), link = Payload.link(className: Array("B".utf8), key: key)
        var graph = ObjectGraph()
        try graph.apply(changeset(ApplyTests.schema + [.createObject()]))
        let reason = "a primary key of \(count) bytes, more than the 4096 that it may have"
        func expect(_ place: String, _ body: (inout ObjectGraph) throws -> Void) {
            var graph = graph
            let error = Result { try body(&graph) }.failure as? ApplyError
            #expect((error == nil) == isTaken)
            #expect(isTaken || error?.code == .invalid && error?.reason == reason)
            #expect(isTaken || error?.description.hasPrefix(place) == true)
        }
        expect("B[\"kkk") { try $0.apply(changeset(.createObject(object))) }
        expect("B[\"kkk") { try $0.apply(changeset(.eraseObject(object))) }
        expect("A[1].m") { try $0.apply(changeset(.update(.at("m"), link))) }
        expect("A[1].lm") { try $0.apply(changeset(.insert(.at("lm", 0), link, size: 0))) }
        expect("B[\"kkk") { _ = try $0.write(as: 2) { try $0.create("B", key: key) } }
    }

    /// Also after a restart.
    @Test func theColumnsOfAllClassesCountTogether() throws {
        var rows = MemoryRows()
        var graph = try ObjectGraph(rows: rows)
        let written = try graph.write(as: 2) { tx in
            for number in 0..<Schema.slotCountMax / ClassState.slotCountMax {
                try tx.addClass("\(number)")
                for column in 0..<ClassState.slotCountMax { try tx.addColumn("\(column)", .int, to: "\(number)") }
            }
            try tx.addClass("A")
        }
        rows.write(try graph.rowWrites(of: written.changes))
        for var graph in [graph, try ObjectGraph(rows: rows)] {
            #expect(throws: ApplyError.self) { try graph.write(as: 2) { try $0.addColumn("f", .int, to: "A") } }
            _ = try graph.write(as: 2) { tx in
                try tx.eraseClass("0")
                try tx.addColumn("f", .int, to: "A")
            }
        }
    }
}

extension Result {
    fileprivate var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
