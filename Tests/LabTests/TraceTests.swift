import AnabranchCore
import Foundation
import Testing

@testable import AnabranchTesting
@testable import anabranch_lab

@Suite struct TraceTests {
    /// Three people: two type into the first one's text at the same time, then one of them corrects the other.
    private static let json = """
        {"kind": "concurrent", "numAgents": 3, "endContent": "Hello, näive 👋 world!", "txns": [
          {"agent": 0, "time": "2023-11-22T03:57:32+00:00", "parents": [], "patches": [[0, 0, "Hello world"]]},
          {"agent": 1, "time": "2023-11-22T03:57:33+00:00", "parents": [0], "patches": [[5, 0, ", new"]]},
          {"agent": 2, "time": "2023-11-22T03:57:33+00:00", "parents": [0], "patches": [[11, 0, "?"]]},
          {"agent": 1, "time": "2023-11-22T03:57:34+00:00", "parents": [1], "patches": [[8, 2, ""], [8, 0, "äive 👋"]]},
          {"agent": 0, "time": "2023-11-22T03:57:35+00:00", "parents": [2], "patches": [[11, 1, "!"]]}
        ]}
        """

    private func trace(_ json: String = json) throws -> Trace {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .rfc3339
        return try decoder.decode(Trace.self, from: Data(json.utf8))
    }

    @Test func everyTransactionIsMadeOnTheStateThatItWasRecordedOn() throws {
        let trace = try trace()
        let schedule = try TraceSchedule(of: trace)
        #expect(schedule.log.sorted() == Array(trace.txns.indices))
        var replay = try TraceReplay(trace, strategy: .indexed)
        try replay.follow(schedule)
        #expect(try replay.texts() == Array(repeating: trace.endContent, count: 3))
        #expect(Set(try replay.states()).count == 1)
    }

    @Test func usersWhoStayOffLineEndInTheSameState() throws {
        var replay = try TraceReplay(try trace(), strategy: .everyPair)
        try replay.stayOffline()
        #expect(Set(try replay.states()).count == 1)
    }

    /// The edits of two people are more than one UPLOAD takes, each by himself and then seen by the other.
    @Test func muchTextTakesSeveralUploads() throws {
        var trace = try trace()
        let first = trace.txns[0], text = String(repeating: "x", count: 4_000)
        trace.numAgents = 2
        trace.endContent = String(repeating: text, count: 10)
        trace.txns = try (0..<10).map { number in
            let patch = try JSONDecoder().decode(Trace.Patch.self, from: Data("[0, 0, \"\(text)\"]".utf8))
            return Trace.Transaction(
                agent: number / 5, time: first.time, parents: number > 0 ? [number - 1] : [], patches: [patch])
        }
        var together = try TraceReplay(trace, strategy: .indexed)
        try together.follow(try TraceSchedule(of: trace))
        #expect(try together.texts() == [trace.endContent, trace.endContent])
        #expect(Set(try together.states()).count == 1)
        var apart = try TraceReplay(trace, strategy: .indexed)
        try apart.stayOffline()
        #expect(Set(try apart.states()).count == 1)
        #expect(try apart.texts().allSatisfy { $0.utf8.count == trace.endContent.utf8.count })
    }

    @Test func exchangesThatDoNotFitOneServerAreRefused() throws {
        // The first agent has seen the second one's text and not the third one's; another has seen it the other way.
        var trace = try trace()
        trace.numAgents = 4
        let text = trace.txns[0].patches
        let time = trace.txns[0].time
        trace.txns = [(0, []), (1, []), (2, [0]), (3, [1])].map {
            Trace.Transaction(agent: $0.0, time: time, parents: $0.1, patches: text)
        }
        let error = #expect(throws: InputError.self) { try TraceSchedule(of: trace) }
        #expect(error?.description.hasSuffix("transactions 0, 1, 2 and 1 more can be the next in its log") == true)
    }

    /// Input that would trap or mean nothing is refused, and the error says where it stands.
    @Test(arguments: [
        (#""numAgents": 3"#, #""numAgents": -1"#, "numAgents is -1, not from 1 to 1000"),
        (#""agent": 2"#, #""agent": 3"#, "transaction 2: there is no agent 3"),
        (#""parents": [1]"#, #""parents": [3]"#, "transaction 3: its parent 3 is no earlier transaction"),
        ("[11, 1,", "[-1, 1,", "transaction 4: it deletes 1 characters at -1"),
        ("[11, 1,", "[11, \(Int.max),", "transaction 4: it deletes \(Int.max) characters at 11"),
    ])
    func numbersThatMakeNoSenseAreRefused(_ text: String, _ replacement: String, _ reason: String) throws {
        let trace = try trace(Self.json.replacing(text, with: replacement))
        let error = #expect(throws: InputError.self) { try trace.check() }
        #expect(error?.description == reason)
    }

    @Test func aPatchBeyondTheTextIsRefusedWithItsTransaction() throws {
        let trace = try trace(Self.json.replacing("[11, 1,", with: "[11, 100,"))
        try trace.check()
        var replay = try TraceReplay(trace, strategy: .indexed)
        let error = #expect(throws: InputError.self) { try replay.follow(try TraceSchedule(of: trace)) }
        #expect(error?.description.hasPrefix("transaction 4: ") == true)
    }
}
