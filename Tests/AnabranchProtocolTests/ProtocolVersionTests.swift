import Testing

@testable import AnabranchProtocol

@Suite struct ProtocolVersionTests {
    private static func offer(_ highest: Int, _ separator: String, prefix: String = "com.mongodb.realm-sync") -> String
    {
        stride(from: highest, through: 2, by: -1).map { "\(prefix)\(separator)\($0)" }.joined(separator: ", ")
    }

    /// `Spec/Protocol.md`, section 2.1: what the releases 12.0 … 14.14 offer.
    @Test(arguments: [
        (4, "/"), (6, "/"), (7, "/"), (8, "#"), (9, "#"), (10, "#"), (11, "#"), (12, "#"), (13, "#"), (14, "#"),
    ])
    func everyReleasedClientGetsItsHighestVersion(highest: Int, separator: String) throws {
        let negotiation = try Negotiation(offer: Self.offer(highest, separator))
        #expect(negotiation.element == "com.mongodb.realm-sync\(separator)\(highest)")
        #expect(negotiation.version == ProtocolVersion(highest))
        #expect(negotiation.refusal == nil)
        #expect(negotiation.usesOldCloseStyle == (highest < 8))
    }

    @Test func aNewerClientIsServedAtTheHighestCommonVersion() throws {
        let negotiation = try Negotiation(offer: Self.offer(17, "#"))
        #expect(negotiation.element == "com.mongodb.realm-sync#14")
        #expect(negotiation.refusal == nil)
        #expect(!negotiation.usesOldCloseStyle)
    }

    @Test(arguments: [
        (" \tcom.mongodb.realm-sync#9\t ,com.mongodb.realm-sync#10 ", "com.mongodb.realm-sync#10"),
        ("com.mongodb.realm-sync/3,com.mongodb.realm-sync#2", "com.mongodb.realm-sync/3"),
        ("chat, com.mongodb.realm-sync#014, superchat", "com.mongodb.realm-sync#014"),
        ("com.mongodb.realm-sync#99999999999999999999, com.mongodb.realm-sync#5", "com.mongodb.realm-sync#5"),
        (",,com.mongodb.realm-sync#2,", "com.mongodb.realm-sync#2"),
        ("com.mongodb.realm-query-sync#14, com.mongodb.realm-sync#3", "com.mongodb.realm-sync#3"),
    ])
    func theElementIsEchoedByteForByte(offer: String, element: String) throws {
        let negotiation = try Negotiation(offer: offer)
        #expect(negotiation.element == element)
        #expect(negotiation.refusal == nil)
    }

    @Test func flexibleSyncIsLetInAndRefused() throws {
        let offer = Self.offer(14, "#", prefix: "com.mongodb.realm-query-sync")
        let negotiation = try Negotiation(offer: offer)
        #expect(negotiation.element == "com.mongodb.realm-query-sync#14")
        #expect(negotiation.refusal?.code == .switchToPartitionSync)
        #expect(try Negotiation(offer: "com.mongodb.realm-query-sync/7").usesOldCloseStyle)
    }

    @Test(arguments: [(4, "/"), (7, "/"), (8, "#"), (14, "#"), (17, "#")])
    func flexibleSyncIsServedWhereItIsAccepted(highest: Int, separator: String) throws {
        let offer = Self.offer(highest, separator, prefix: "com.mongodb.realm-query-sync")
        for modes in [[.flexible], Set(SyncMode.allCases)] {
            let negotiation = try Negotiation(offer: offer, accepting: modes)
            #expect(negotiation.element == "com.mongodb.realm-query-sync\(separator)\(min(highest, 14))")
            #expect(negotiation.mode == .flexible)
            #expect(negotiation.refusal == nil)
        }
        let partition = Self.offer(highest, separator)
        #expect(try Negotiation(offer: partition, accepting: [.flexible]).refusal?.code == .switchToFlexibleSync)
        #expect(try Negotiation(offer: partition, accepting: Set(SyncMode.allCases)).mode == .partition)
        let newest = try Negotiation(offer: "com.mongodb.realm-query-sync#15", accepting: [.flexible])
        #expect(newest.refusal?.code == .wrongProtocolVersion)
    }

    @Test(arguments: ["com.mongodb.realm-sync#1", "com.mongodb.realm-sync#15", "com.mongodb.realm-sync/0"])
    func aClientWithoutCommonVersionIsLetInAndRefused(offer: String) throws {
        let negotiation = try Negotiation(offer: offer)
        #expect(negotiation.element == offer)
        #expect(negotiation.refusal?.code == .wrongProtocolVersion)
    }

    @Test(arguments: [
        "", " ", ",", "chat", "com.mongodb.realm-sync", "com.mongodb.realm-sync#", "com.mongodb.realm-sync#x",
        "com.mongodb.realm-sync#-2", "com.mongodb.realm-sync#+2", "com.mongodb.realm-sync#2-14",
        "com.mongodb.realm-sync# 2", "com.mongodb.realm-sync 2", "com.mongodb.realm-syncs#2",
        "xcom.mongodb.realm-sync#2", "COM.MONGODB.REALM-SYNC#2", "#2", "com.mongodb.realm-sync##2",
        "com.mongodb.realm-sync#٣",
    ])
    func anOfferWithoutUsableElementIsAnError(offer: String) {
        #expect(throws: NegotiationError()) { try Negotiation(offer: offer) }
    }

    @Test func forksHaveOtherNamesAndTheReleaseThatTheyAreMadeOf() throws {
        for (dialect, prefixes) in [
            (WireDialect.barq, ["io.barq.sync", "io.barq.query-sync"]),
            (.tessera, ["io.tessera.sync", "io.tessera.query-sync"]),
        ] {
            for (mode, prefix) in zip([SyncMode.partition, .flexible], prefixes) {
                let negotiation = try Negotiation(
                    offer: Self.offer(14, "#", prefix: prefix), userAgent: "BarqSync/20.2.0 (Linux)", accepting: [mode],
                    in: dialect)
                #expect(negotiation.element == prefix + "#14" && negotiation.mode == mode)
                #expect(negotiation.release.said == CoreVersion(14, 14))
                #expect(negotiation.release.knownDefects == [.danglingLinks])
                #expect(throws: NegotiationError()) { try Negotiation(offer: Self.offer(14, "#", prefix: prefix)) }
                #expect(throws: NegotiationError()) {
                    try Negotiation(offer: Self.offer(14, "/", prefix: prefix), in: dialect)
                }
            }
            #expect(throws: NegotiationError()) { try Negotiation(offer: Self.offer(14, "#"), in: dialect) }
        }
    }

    @Test func versionsKnowWhatTheirClientsUnderstand() {
        for number in ProtocolVersion.supported {
            let version = ProtocolVersion(number)
            #expect(version.isSupported)
            #expect(version.hasErrorMessages == (number >= 4))
            #expect(version.hasCompensatingWrites == (number >= 5))
            #expect(version.hasErrorActions == (number >= 7))
            #expect(version.hasLogMessages == (number >= 10))
            #expect(version.hasProgressEstimates == (number >= 12))
            #expect(version.hasBatchStates == (number >= 14))
        }
    }
}
