import AnabranchCore

/// A merge as the vectors and the benchmark cases record it.
struct MergeCase: Decodable {
    /// A changeset of either side; `base` is the other side's last integrated version.
    struct Input: Decodable {
        var version: UInt64
        var base: UInt64
        var timestamp: ChangesetTime
        var origin: ClientFileID
        var hex: String
    }

    var name: String?
    var seed: UInt64?
    /// The file ident of the replica that merged; 1 is the server.
    var at: ClientFileID?
    var local: [Input]
    var incoming: [Input]
    var local_after: [MergeResult.Output]?
    var incoming_after: [MergeResult.Output]?
    var error: String?
}

/// What a merge makes of both sides.
struct MergeResult: Encodable {
    struct Output: Codable, Equatable {
        var dirty: Bool
        var hex: String
    }

    var name: String?
    var local_after: [Output]?
    var incoming_after: [Output]?
    var error: String?
    /// In words, beside `error`.
    var reason: String?
}

/// Both sides of a case, decoded into one pool.
struct MergeInput {
    var pool = ChangesetPool()
    var local: [Int] = []
    var incoming: [Int] = []

    init(_ mergeCase: MergeCase) throws {
        for input in mergeCase.local { local.append(try decode(input)) }
        for input in mergeCase.incoming { incoming.append(try decode(input)) }
    }

    private mutating func decode(_ input: MergeCase.Input) throws -> Int {
        try pool.decode(
            try Hex.bytes(input.hex), version: input.version,
            tag: OriginTag(timestamp: input.timestamp, ident: input.origin))
    }

    /// The sides as they are now.
    func outputs(of changesets: [Int]) -> [MergeResult.Output] {
        changesets.map { MergeResult.Output(dirty: pool.isDirty($0), hex: Hex.encode(pool.encoded($0))) }
    }
}
