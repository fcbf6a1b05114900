import AnabranchTesting
import Testing

@testable import AnabranchCore

/// Which of the two sides of a merge is older.
enum Age {
    case majorOlder, minorOlder, equal

    var tags: (major: OriginTag, minor: OriginTag) {
        switch self {
        case .majorOlder: (OriginTag(timestamp: 10, ident: 2), OriginTag(timestamp: 20, ident: 3))
        case .minorOlder: (OriginTag(timestamp: 20, ident: 2), OriginTag(timestamp: 10, ident: 3))
        case .equal: (OriginTag(timestamp: 10, ident: 2), OriginTag(timestamp: 10, ident: 2))
        }
    }

    var swapped: Age {
        switch self {
        case .majorOlder: .minorOlder
        case .minorOlder: .majorOlder
        case .equal: .equal
        }
    }
}

/// One changeset of each side, decoded into one arena.
struct Meeting {
    var arena = ChangesetArena()
    let major: ChangesetIndex
    let minor: ChangesetIndex

    init(_ majorSteps: [Step], _ minorSteps: [Step], _ age: Age = .majorOlder) throws {
        major = try arena.decode(changeset(majorSteps), version: 1, tag: age.tags.major)
        minor = try arena.decode(changeset(minorSteps), version: 1, tag: age.tags.minor)
    }

    mutating func merge(_ strategy: MergeStrategy = .everyPair) throws {
        try arena.merge(local: [major], incoming: [minor], strategy: strategy)
    }
}

/// The lines of the steps' text form.
func lines(_ steps: [Step]) throws -> [String] {
    var arena = ChangesetArena()
    let changeset = try arena.decode(
        AnabranchCoreTests.changeset(steps), version: 1, tag: OriginTag(timestamp: 0, ident: 0))
    return arena.lines(of: changeset)
}

extension ChangesetArena {
    /// The live instructions of a changeset in words.
    func lines(of changeset: ChangesetIndex) -> [String] { instructions(of: changeset).map { text(of: $0) } }

    func strings(of changeset: ChangesetIndex) -> [String] {
        stringTable(of: changeset).map { String(decoding: bytes(of: $0), as: UTF8.self) }
    }
}

/// Expects what a merge makes of two sides, with every strategy. A side is dirty when its lines have changed.
func expectMerge(
    _ major: [Step], _ minor: [Step], _ age: Age = .majorOlder, becomes majorAfter: [Step], _ minorAfter: [Step],
    _ sourceLocation: SourceLocation = #_sourceLocation
) throws {
    for strategy in [MergeStrategy.everyPair, .indexed] {
        var meeting = try Meeting(major, minor, age)
        try meeting.merge(strategy)
        for (changeset, before, after) in [(meeting.major, major, majorAfter), (meeting.minor, minor, minorAfter)] {
            let side: Comment = "\(changeset == meeting.major ? "major" : "minor") side, \(strategy)"
            let (before, after) = (try lines(before), try lines(after)), merged = meeting.arena.lines(of: changeset)
            #expect(merged == after, side, sourceLocation: sourceLocation)
            guard merged == after else { continue }
            #expect(meeting.arena.isDirty(changeset) == (before != after), side, sourceLocation: sourceLocation)
            #expect(meeting.arena.isEmpty(changeset) == after.isEmpty, side, sourceLocation: sourceLocation)
        }
    }
}

/// Expects the same with exchanged sides: the rules between two kinds do not know which side is the major one.
func expectMergeBothWays(
    _ first: [Step], _ second: [Step], _ age: Age = .majorOlder, becomes firstAfter: [Step], _ secondAfter: [Step],
    _ sourceLocation: SourceLocation = #_sourceLocation
) throws {
    try expectMerge(first, second, age, becomes: firstAfter, secondAfter, sourceLocation)
    try expectMerge(second, first, age.swapped, becomes: secondAfter, firstAfter, sourceLocation)
}

/// Expects that nothing happens, whichever side is which and whichever is older.
func expectNothing(
    _ first: [Step], _ second: [Step], _ sourceLocation: SourceLocation = #_sourceLocation
) throws {
    for age in [Age.majorOlder, .minorOlder, .equal] {
        try expectMergeBothWays(first, second, age, becomes: first, second, sourceLocation)
    }
}

/// Expects that the merge is refused, whichever side is which.
func expectRefusal(
    _ code: TransformError.Code, _ first: [Step], _ second: [Step],
    _ sourceLocation: SourceLocation = #_sourceLocation
) throws {
    for (major, minor) in [(first, second), (second, first)] {
        for strategy in [MergeStrategy.everyPair, .indexed] {
            var meeting = try Meeting(major, minor)
            let error = #expect(throws: TransformError.self, sourceLocation: sourceLocation) {
                try meeting.merge(strategy)
            }
            #expect(error?.code == code, "\(strategy)", sourceLocation: sourceLocation)
        }
    }
}
