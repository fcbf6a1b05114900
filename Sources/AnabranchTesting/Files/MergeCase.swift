package import AnabranchCore

/// A merge as the vectors and the benchmark cases record it.
package struct MergeCase: Decodable, Sendable {
    /// A changeset of either side; `base` is the other side's last integrated version.
    package struct Input: Decodable, Sendable {
        package var version: UInt64
        package var base: UInt64
        package var timestamp: ChangesetTime
        package var origin: ClientFileID
        package var hex: String
    }

    /// A changeset after the merge.
    package struct Output: Codable, Equatable, Sendable {
        package var dirty: Bool
        package var hex: String
    }

    package var name: String?
    package var seed: UInt64?
    /// The file ident of the replica that merged; 1 is the server.
    package var at: ClientFileID?
    package var local: [Input]
    package var incoming: [Input]
    package var local_after: [Output]?
    package var incoming_after: [Output]?
    package var error: String?
}

/// Both sides of a case, decoded into one arena.
package struct MergeInput {
    package var arena = ChangesetArena()
    package var local: [ChangesetIndex] = []
    package var incoming: [ChangesetIndex] = []

    package init(_ mergeCase: MergeCase) throws {
        for input in mergeCase.local { local.append(try decode(input)) }
        for input in mergeCase.incoming { incoming.append(try decode(input)) }
    }

    private mutating func decode(_ input: MergeCase.Input) throws -> ChangesetIndex {
        try arena.decode(
            try Hex.bytes(of: input.hex), version: input.version,
            tag: OriginTag(timestamp: input.timestamp, ident: input.origin))
    }

    /// The sides as they are now.
    package func outputs(of changesets: [ChangesetIndex]) -> [MergeCase.Output] {
        changesets.map { MergeCase.Output(dirty: arena.isDirty($0), hex: Hex.encode(arena.encoded($0))) }
    }
}
