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
