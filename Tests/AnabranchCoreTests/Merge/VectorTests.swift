import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The samples of the reference's own merges: the same bytes and flags on both sides, by every strategy.
@Suite struct VectorTests {
    @Test(arguments: [MergeStrategy.indexed, .everyPair])
    func randomMergesGiveTheReferencesBytes(_ strategy: MergeStrategy) throws {
        for vector in VectorFiles.merges { try check(vector, strategy, "random merge \(vector.seed ?? 0)") }
    }

    @Test(arguments: [MergeStrategy.indexed, .everyPair])
    func mergesOfScenariosGiveTheReferencesBytes(_ strategy: MergeStrategy) throws {
        for scenario in VectorFiles.scenarios {
            for (number, vector) in scenario.merges.enumerated() {
                try check(vector, strategy, "\(scenario.name), merge \(number)")
            }
        }
    }

    /// The server merges uploads in the form that the encoder gives them.
    @Test func recordedChangesetsAreEncodedAsTheReferenceEncodesThem() throws {
        for scenario in VectorFiles.scenarios {
            let encoded = try scenario.uploads.map { upload in
                var arena = ChangesetArena()
                let changeset = try arena.decode(
                    Hex.bytes(upload.hex), version: 1, tag: OriginTag(timestamp: 0, ident: 0))
                return arena.hexOutput(of: changeset)
            }
            for upload in scenario.merges.filter({ $0.at == 1 }).flatMap(\.incoming) {
                let isFound = encoded.contains(upload.hex)
                #expect(isFound, "\(scenario.name): \(upload.hex)")
            }
        }
    }

    private func check(_ vector: MergeCase, _ strategy: MergeStrategy, _ name: String) throws {
        var arena = ChangesetArena()
        let local = try vector.local.map { try arena.decode($0) }
        let incoming = try vector.incoming.map { try arena.decode($0) }
        do throws(TransformError) {
            try arena.merge(local: local, incoming: incoming, strategy: strategy)
            #expect(vector.error == nil, "\(name) is refused by the reference")
            #expect(local.map { arena.hexOutput(of: $0) } == vector.local_after?.map(\.hex), "\(name)")
            #expect(incoming.map { arena.hexOutput(of: $0) } == vector.incoming_after?.map(\.hex), "\(name)")
            // A scenario does not say which merges belong to one message, within which flags stay set.
            guard vector.seed != nil else { return }
            #expect(local.map { arena.isDirty($0) } == vector.local_after?.map(\.dirty), "\(name)")
            #expect(incoming.map { arena.isDirty($0) } == vector.incoming_after?.map(\.dirty), "\(name)")
        } catch {
            #expect(vector.error == "merge", "\(name): \(error)")
        }
    }
}

extension ChangesetArena {
    mutating func decode(_ input: MergeCase.Input) throws(ChangesetError) -> ChangesetIndex {
        let tag = OriginTag(timestamp: input.timestamp, ident: input.origin)
        return try decode(Hex.bytes(input.hex), version: input.version, tag: tag)
    }

    func hexOutput(of changeset: ChangesetIndex) -> String { Hex.encode(encoded(changeset)) }
}
