import Testing

@testable import anabranch_lab

@Suite struct ServerGaugesTests {
    @Test func levelsAreReadAndNothingElse() {
        let text = """
            # TYPE anabranch_sessions gauge
            anabranch_sessions 12
            anabranch_websockets 3.0
            anabranch_sessions_opened_total 40
            anabranch_handshakes_total{outcome="admitted"} 3

            """
        #expect(ServerGauges.values(in: text) == ["anabranch_sessions": 12, "anabranch_websockets": 3])
    }
}
