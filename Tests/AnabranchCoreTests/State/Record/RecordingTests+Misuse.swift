import AnabranchTesting
import Testing

@testable import AnabranchCore

extension RecordingTests {
    @Test func aFailedAssignmentUndoesTheTransaction() throws {
        var graph = try graph()
        let before = try graph.json
        let error = #expect(throws: ApplyError.self) {
            try graph.write(as: 2) { tx in
                let object = try tx.create("A", key: 3)
                object["i"] = "t"
                object["i"] = 5
            }
        }
        #expect(error?.description == "A[3].i: String does not fit the field")
        #expect(try graph.json == before)
    }

    @Test func nothingIsWrittenAfterTheEndOrWhileReading() throws {
        var graph = try graph()
        let object = try graph.write(as: 2) { try $0.create("A", key: 1) }.result
        #expect(throws: ApplyError.self) { try object.set("i", to: 1) }
        #expect(throws: ApplyError.self) { try graph.read { try $0.create("A", key: 1).set("i", to: 1) } }
    }
}
