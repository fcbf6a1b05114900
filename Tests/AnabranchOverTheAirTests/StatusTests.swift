import AnabranchCore
import AnabranchOverTheAir
import AnabranchPropertyList
import Testing

@Suite struct StatusTests {
    /// The table of the chapter: code, name, effect on a dataclass.
    private static let table: [(Int, String, StatusCode.Effect)] = [
        (200, "S_OK", .none), (207, "S_MultiStatus", .none), (202, "E_NotCompleted", .waits),
        (404, "E_NotFound", .dataclassEnds), (403, "E_NotAllowed", .dataclassEnds),
        (410, "E_MissingParam", .dataclassEnds), (411, "E_ParamError", .dataclassEnds),
        (406, "E_BadValue", .dataclassEnds), (412, "E_UnknownCommand", .dataclassEnds),
        (413, "E_CommandNotProcessed", .commandFails), (409, "E_StateError", .dataclassEnds),
        (414, "E_LimitExceeded", .dataclassEnds), (415, "E_VersionNotSupported", .dataclassEnds),
        (416, "E_NegotiationFailed", .startFails), (417, "E_NotSupported", .dataclassEnds),
        (418, "E_Failed", .dataclassEnds), (419, "E_Canceled", .dataclassEnds),
        (503, "E_ServiceBusy", .sessionEnds), (504, "E_ServiceUnavailable", .sessionEnds),
        (500, "E_ServiceError", .sessionEnds), (400, "E_BadRequest", .sessionEnds),
        (505, "E_RetryLater", .sessionEnds),
    ]

    @Test func codes() throws {
        #expect(Self.table.count == StatusCode.allCases.count)
        for (number, name, effect) in Self.table {
            let code = try #require(StatusCode(rawValue: number))
            #expect(code.name == name && code.syncEffect == effect)
        }
    }

    @Test func statusesComeBack() throws {
        var status = Status(.badValue, "no date", paramName: "items", paramKey: "17")
        #expect(try Status(status.propertyList, at: "/r") == status)
        #expect(status.propertyList["status"] == "E_BadValue")
        status = Status(.badValue, paramName: "items", paramIndex: 4)
        #expect(try Status(status.propertyList, at: "/r") == status)
    }

    @Test func numbersMayBeTexts() throws {
        let status = try Status(["code": "406", "param_index": "0"], at: "")
        #expect(status.knownCode == .badValue && status.paramIndex == 0)
    }

    @Test func unknownCodesCountByTheirHundreds() throws {
        #expect(try Status(["code": 499], at: "").knownCode == .failed)
        #expect(try Status(["code": 599], at: "").knownCode == .serviceError)
        #expect(try Status(["code": 1], at: "").knownCode == .failed)
    }

    @Test(
        arguments: [
            ("/r", "text"), ("/r/code", [:]), ("/r/code", ["code": "4a"]), ("/r/code", ["code": -1]),
            ("/r/code", ["code": true]), ("/r/param_index", ["code": 200, "param_index": "-1"]),
            ("/r/param_key", ["code": 200, "param_key": 1]),
        ] as [(String, PropertyList)])
    func whatIsNoStatus(place: String, value: PropertyList) {
        #expect { try Status(value, at: "/r") } throws: { ($0 as? MessageError)?.place == place }
    }

    @Test func oneStatusForAllItems() throws {
        #expect([Status](failures: []) == [Status(.ok)])
        let failures = ["1", "é", "e\u{301}"].map { Status(.badValue, paramName: "items", paramKey: $0) }
        let statuses = [Status](failures: failures)
        #expect(statuses.first == Status(.multiStatus) && statuses.count == 4)
        #expect(statuses.failuresOfItems?.count == 3)
        #expect(statuses.failuresOfItems?["é"] == failures[1])
        #expect([Status(.ok)].failuresOfItems?.isEmpty == true)
        #expect([Status(.stateError)].failuresOfItems == nil)
        #expect([Status(.multiStatus), Status(.badValue, paramName: "anchors")].failuresOfItems == nil)
        #expect([Status]().failuresOfItems == nil)
    }
}
