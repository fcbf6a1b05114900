import AnabranchCore
import AnabranchHistory
import AnabranchOverTheAir
import AnabranchPropertyList
import AnabranchServer
import AnabranchTestClient
import Testing

@testable import AnabranchOverTheAirWire

/// A server whose clock is wrong for a while (`Spec/OverTheAirServer.md`, section 7).
@Suite(.timeLimit(.minutes(30))) struct ClockTests {
    private static let uri = DeviceRig.contacts
    private static let years: UInt64 = 10 * 365 * 86_400

    /// Erases the rows whose time has come, as stores do.
    private static func eraseExpired(_ rig: DeviceRig) async throws {
        let now = rig.clock.now
        let write = HeadWrite(at: rig.wire.writeTime) { _, records in
            var expired: [RecordPlace] = []
            for kind in RowKind.allCases {
                try records.forEachRow(kind, []) { record in
                    if record.expiresAt != 0, record.expiresAt <= now { expired.append(record.place) }
                }
            }
            for place in expired { records.set(nil, at: place) }
            return []
        }
        _ = try await rig.wire.server().write([write], atHeadOf: rig.path).first?.get()
    }

    /// What was written while the clock was behind is kept as long as all else.
    @Test func changesOfATimeBeforeAreTold() async throws {
        try await DeviceRig.run { rig in
            var one = Talker(rig, "one")
            let first = try await one.slow(Self.uri, "0", ["L1": ["entity": "contact", "fields": ["name": "Ann"]]])
            let realm = try await rig.realmClient()
            try await realm.download()
            rig.clock.setBack(by: Self.years)
            try await realm.write(at: rig.wire.writeTime) { tx in
                try #require(try tx.objects("Contact").first)["company"] = "Analytical"
            }
            try await realm.upload()
            await realm.disconnect()
            rig.clock.advance(by: Self.years)
            try await Self.eraseExpired(rig)
            let answer = try await one.fast(Self.uri, "1", last: "0", anchor: first.anchor(Self.uri))
            #expect(answer.codes(2) == [.ok])
            #expect(answer.pushed(Self.uri)["L1"]?["set"] == ["company": "Analytical"])
        }
    }

    /// An anchor of a time to come says nothing about how long ago it was given.
    @Test func anAnchorOfATimeToComeLeadsToASlowSync() async throws {
        try await DeviceRig.run { rig in
            var one = Talker(rig, "one")
            rig.clock.advance(by: Self.years)
            let first = try await one.slow(Self.uri, "0", ["L1": ["entity": "contact", "fields": ["name": "Ann"]]])
            rig.clock.setBack(by: Self.years)
            let answer = try await one.fast(Self.uri, "1", last: "0", anchor: first.anchor(Self.uri))
            #expect(answer.codes(1) == [.negotiationFailed])
        }
    }
}
