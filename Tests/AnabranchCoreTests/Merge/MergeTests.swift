import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The grid: iteration, prepending, flags and order (`Spec/Transform.md`, section 2).
@Suite struct MergeTests {
    private let strategies = [MergeStrategy.everyPair, .indexed]

    // MARK: Iteration

    @Test func discardedMajorInstructionMeetsNothingMore() throws {
        // The second minor value would replace an older one, but the major one is gone with the first.
        try expectMerge(
            [.addInteger(.at("f"), 1)], [.clear(.at("f")), .update(.at("f"), .int(5))], .minorOlder, becomes: [],
            [.clear(.at("f")), .update(.at("f"), .int(5))])
    }

    @Test func discardedMinorInstructionDoesNotStopTheMajorOne() throws {
        try expectMerge(
            [.eraseObject()], [.createObject(), .update(.at("f"), .int(1)), .eraseObject()], .minorOlder,
            becomes: [.eraseObject()], [])
    }

    @Test func malformedInstructionThatWasDiscardedBeforeRaisesNothing() throws {
        // The insertion beyond the end is lost with the object before it can meet the update.
        try expectMerge(
            [.eraseObject(), .update(.item(9), .null)], [.insert(.item(9))],
            becomes: [.eraseObject(), .update(.item(9), .null)], [])
    }

    @Test func nothingHappensWithoutACounterpart() throws {
        for strategy in strategies {
            var meeting = try Meeting([.update(.at("f"), .double(.nan))], [.update(.at("f"), .double(.nan))])
            try meeting.arena.merge(local: [], incoming: [meeting.minor], strategy: strategy)
            try meeting.arena.merge(local: [meeting.major], incoming: [], strategy: strategy)
            #expect(!meeting.arena.isDirty(meeting.major) && !meeting.arena.isDirty(meeting.minor))
        }
    }

    @Test func minorSideIsTakenInTheOrderOfVersions() throws {
        // In the other order the sizes contradict each other.
        for strategy in strategies {
            for (versions, isMerged) in [((1, 2), true), ((2, 1), false), ((1, 1), true)] as [((UInt64, UInt64), Bool)]
            {
                var arena = ChangesetArena()
                let major = try arena.decode(
                    changeset(.erase(.item(0)), .erase(.item(0), size: 4)), version: 1, tag: Age.majorOlder.tags.major)
                let first = try arena.decode(
                    changeset(.insert(.item(0))), version: versions.0, tag: Age.majorOlder.tags.minor)
                let second = try arena.decode(
                    changeset(.insert(.item(0), size: 6)), version: versions.1, tag: Age.majorOlder.tags.minor)
                let result = Result { try arena.merge(local: [major], incoming: [first, second], strategy: strategy) }
                #expect(((try? result.get()) != nil) == isMerged)
            }
        }
    }

    @Test func majorSideIsTakenInTheOrderOfTheList() throws {
        for strategy in strategies {
            var arena = ChangesetArena()
            let tag = Age.majorOlder.tags.major
            let first = try arena.decode(changeset(.insert(.item(0))), version: 9, tag: tag)
            let second = try arena.decode(changeset(.insert(.item(0), size: 6)), version: 1, tag: tag)
            let minor = try arena.decode(changeset(.insert(.item(5))), version: 1, tag: Age.majorOlder.tags.minor)
            try arena.merge(local: [first, second], incoming: [minor], strategy: strategy)
            #expect(try arena.lines(of: minor) == lines([.insert(.item(7), size: 7)]))
        }
    }

    @Test func changesetsMergedOneByOneBecomeWhatTheyBecomeTogether() throws {
        for seed in Seeds.upTo(300) {
            var random = RandomSteps(seed: seed)
            random.isCareful = true
            let local = (0..<3).map { _ in changeset(random.steps(6)) }
            let incoming = (0..<3).map { _ in changeset(random.steps(6)) }
            let outcomes: [[[UInt8]]?] = [true, false].map { isTogether in
                var arena = ChangesetArena()
                let runs = isTogether ? [0..<3] : [0..<1, 1..<2, 2..<3]
                var merge = Merge()
                do { try arena.mergeRuns(local, incoming, runs: runs, with: &merge) } catch { return nil }
                return arena.bytesOfAll
            }
            #expect(
                outcomes[0] == outcomes[1],
                "\(Seeds.repeatCommand("changesetsMergedOneByOneBecomeWhatTheyBecomeTogether", seed: seed))")
        }
    }

    @Test func mergeThatWouldVisitTooManyPairsIsRefused() throws {
        let columns = (0..<10).map { Step.eraseColumn("A", "f\($0)") }
        let steps = (0..<10).map { Step.update(.at("g"), .int($0)) }
        for (pairs, isRefused) in [(104, true), (105, false)] {
            #expect(try refusal(of: columns, steps, pairs: pairs) == (isRefused ? .tooManyPairs : nil))
        }
    }

    /// A move to where the element is leaves a list to the grid, and its pairs count like others.
    @Test func pairsInsideListsAreCounted() throws {
        let inserts = (0..<200).map { Step.insert(.item(0), size: UInt32($0) + 1) }
        let moveAndInserts = [Step.move(.item(0), to: 0, size: 1)] + inserts
        for (pairs, isRefused) in [(30_000, true), (60_000, false)] {
            #expect(try refusal(of: inserts, moveAndInserts, pairs: pairs) == (isRefused ? .tooManyPairs : nil))
        }
    }

    private func refusal(of major: [Step], _ minor: [Step], pairs: Int) throws -> TransformError.Code? {
        var meeting = try Meeting(major, minor)
        var merge = Merge(thresholds: MergeThresholds(), pairsMax: pairs)
        do throws(TransformError) {
            try merge.run(local: [meeting.major], incoming: [meeting.minor], in: &meeting.arena)
            return nil
        } catch {
            return error.code
        }
    }

    // MARK: Prepending (R8)

    private let twoLinks: [Step] = [
        .addColumn("A", "f", .link, target: "B"), .addColumn("C", "g", .link, target: "B"),
    ]

    @Test func prependedErasuresStandInTheOrderOfArrival() throws {
        try expectMergeBothWays(
            twoLinks, [.eraseTable("B")], becomes: [],
            [.eraseColumn("A", "f"), .eraseColumn("C", "g"), .eraseTable("B")])
    }

    @Test func namesOfPrependedErasuresAreAddedToTheStringTable() throws {
        for strategy in strategies {
            for isMajor in [true, false] {
                let sides = isMajor ? (twoLinks, [Step.eraseTable("B")]) : ([.eraseTable("B")], twoLinks)
                var meeting = try Meeting(sides.0, sides.1)
                try meeting.merge(strategy)
                let erasing = isMajor ? meeting.minor : meeting.major
                #expect(meeting.arena.strings(of: erasing) == ["B", "A", "f", "C", "g"])
                #expect(
                    Hex.encode(meeting.arena.encoded(erasing))
                        == "3f0001423f0101413f0201663f0301433f04016707010207030401"
                        + "00")
                #expect(meeting.arena.encoded(isMajor ? meeting.major : meeting.minor).isEmpty)
            }
        }
    }

    @Test func knownNamesAreNotAddedAgain() throws {
        var meeting = try Meeting(
            [.addColumn("A", "f", .link, target: "B")], [.createObject(ObjectName(className: "f")), .eraseTable("B")])
        try meeting.merge(.indexed)
        #expect(meeting.arena.strings(of: meeting.minor) == ["f", "B", "A"])
    }

    @Test func erasurePrependedOnTheMinorSideMeetsLaterMajorInstructions() throws {
        try expectMerge(
            [.addColumn("A", "f", .link, target: "B"), .update(.at("f"), .null), .addColumn("A", "f", .int)],
            [.eraseTable("B")], becomes: [], [.eraseColumn("A", "f"), .eraseTable("B")])
        try expectMerge(
            [.update(.at("f"), .null), .addColumn("A", "f", .link, target: "B")], [.eraseTable("B")],
            becomes: [.update(.at("f"), .null)], [.eraseColumn("A", "f"), .eraseTable("B")])
    }

    @Test func erasurePrependedOnTheMajorSideMeetsWhatFollowsTheColumn() throws {
        try expectMerge(
            [.eraseTable("B")],
            [.update(.at("f"), .null), .addColumn("A", "f", .link, target: "B"), .update(.at("f"), .null)],
            becomes: [.eraseColumn("A", "f"), .eraseTable("B")], [.update(.at("f"), .null)])
    }

    @Test func prependedErasureCanBeDiscardedAtOnce() throws {
        for strategy in strategies {
            var meeting = try Meeting(
                [.eraseTable("B")], [.addColumn("A", "f", .link, target: "B"), .eraseColumn("A", "f")])
            try meeting.merge(strategy)
            #expect(try meeting.arena.lines(of: meeting.major) == lines([.eraseTable("B")]))
            #expect(meeting.arena.isEmpty(meeting.minor))
            // Its names stay in the table, and the side is dirty although its instructions are as they were.
            #expect(meeting.arena.strings(of: meeting.major) == ["B", "A", "f"])
            #expect(meeting.arena.isDirty(meeting.major))
        }
    }

    @Test func prependedErasuresTakePartInLaterMerges() throws {
        for strategy in strategies {
            var meeting = try Meeting([.eraseTable("B")], [.addColumn("A", "f", .link, target: "B")])
            try meeting.merge(strategy)
            let later = try meeting.arena.decode(
                changeset(.update(.at("f"), .null), .update(.at("g"), .null)), version: 2, tag: Age.equal.tags.minor)
            try meeting.arena.merge(local: [meeting.major], incoming: [later], strategy: strategy)
            #expect(try meeting.arena.lines(of: later) == lines([.update(.at("g"), .null)]))
            #expect(try meeting.arena.lines(of: meeting.major) == lines([.eraseColumn("A", "f"), .eraseTable("B")]))
        }
    }

    // MARK: Flags

    @Test func changeThatLaterPairsUndoStillCounts() throws {
        for strategy in strategies {
            var meeting = try Meeting(
                [.update(.item(2), .int(1))], [.insert(.item(0)), .erase(.item(0), size: 6)])
            try meeting.merge(strategy)
            #expect(try meeting.arena.lines(of: meeting.major) == lines([.update(.item(2), .int(1))]))
            #expect(meeting.arena.isDirty(meeting.major))
            #expect(!meeting.arena.isDirty(meeting.minor))
        }
    }

    @Test func flagsStayBetweenMerges() throws {
        for strategy in strategies {
            var meeting = try Meeting([.update(.at("f"), .int(1)), .createObject()], [.update(.at("f"), .int(2))])
            try meeting.merge(strategy)
            let later = try meeting.arena.decode(
                changeset(.update(.at("g"), .int(1))), version: 2, tag: Age.equal.tags.minor)
            try meeting.arena.merge(local: [meeting.major], incoming: [later], strategy: strategy)
            #expect(meeting.arena.isDirty(meeting.major) && !meeting.arena.isDirty(later))
        }
    }

    @Test func valueThatIsNotANumberMakesDirtyWhatIsMergedAtAll() throws {
        let nan = Step.update(.at("f"), .double(.nan))
        for strategy in strategies {
            for (other, isDirty) in [
                (Step.update(.at("g"), .null), true), (.createObject(), true),
                // Another object is not met, nor is a declaration by an object.
                (.createObject(ObjectName(key: .int(2))), false), (.addColumn("A", "g"), false),
                // An erased class or column makes everything meet.
                (.eraseTable("Z"), true), (.eraseColumn("Z", "f"), true),
            ] {
                var meeting = try Meeting([nan], [other])
                try meeting.merge(strategy)
                #expect(meeting.arena.isDirty(meeting.major) == isDirty, "\(other)")
                #expect(!meeting.arena.isDirty(meeting.minor), "\(other)")
                #expect(try meeting.arena.lines(of: meeting.major) == lines([nan]))
            }
            // On the minor side a declaration meets everything.
            var meeting = try Meeting([.addColumn("A", "g")], [nan])
            try meeting.merge(strategy)
            #expect(meeting.arena.isDirty(meeting.minor))
        }
    }

    @Test func linksPutObjectsIntoOneGroupAsFarAsFlagsShowIt() throws {
        let nan = Step.update(.at("f"), .float(.nan))
        let third = ObjectName(key: .int(3))
        for strategy in strategies {
            for (link, isDirty) in [
                (Step.update(.at("g"), .link("A", 3)), true), (.insert(.at("g", 0), .link("A", 3)), true),
                (.setInsert(.at("g"), .link("A", 3)), false),
            ] {
                var arena = ChangesetArena()
                let major = try arena.decode(changeset(nan), version: 1, tag: Age.equal.tags.major)
                let linking = try arena.decode(changeset(link), version: 2, tag: Age.equal.tags.major)
                let minor = try arena.decode(changeset(.createObject(third)), version: 1, tag: Age.equal.tags.minor)
                try arena.merge(local: [major, linking], incoming: [minor], strategy: strategy)
                #expect(arena.isDirty(major) == isDirty, "\(link)")
                #expect(!arena.isDirty(minor) && !arena.isDirty(linking))
            }
        }
    }

    @Test func longChainsOfLinksAreOneGroupToo() throws {
        let chain = (1...3000).map {
            Step.update(Place(object: ObjectName(key: .int($0)), field: "next"), .link("A", $0 + 1))
        }
        for strategy in strategies {
            for last in [3001, 3002] as [Int64] {
                var meeting = try Meeting(
                    [.update(.at("f"), .double(.nan))] + chain, [.createObject(ObjectName(key: .int(last)))])
                try meeting.merge(strategy)
                #expect(meeting.arena.isDirty(meeting.major) == (last == 3001))
            }
        }
    }

    @Test func outerNaNThatDiscardsTheInnerInstructionStaysClean() throws {
        for strategy in strategies {
            var meeting = try Meeting([.update(.at("f"), .double(.nan))], [.update(.at("f", "x"), .int(1))])
            try meeting.merge(strategy)
            #expect(!meeting.arena.isDirty(meeting.major))
            #expect(meeting.arena.isDirty(meeting.minor) && meeting.arena.isEmpty(meeting.minor))
        }
    }

    @Test func decimalNaNIsNoNaNHere() throws {
        let nan = Payload.decimal(Decimal128(low: 0, high: 0x7C << 56))
        try expectNothing([.update(.at("f"), nan)], [.createObject()])
    }
}

extension ChangesetArena {
    /// Merges changesets in runs of the incoming ones, as an integration does, and leaves all in the arena.
    ///
    /// - Parameters:
    ///   - pairs: How many pairs a step visits.
    ///   - afterStep: Called after each step.
    mutating func mergeRuns(
        _ local: [[UInt8]], _ incoming: [[UInt8]], runs: [Range<Int>], with merge: inout Merge, pairs: Int = .max,
        afterStep: (borrowing Merge) -> Void = { _ in }
    ) throws {
        var (ours, theirs): ([ChangesetIndex], [ChangesetIndex]) = ([], [])
        for (index, bytes) in local.enumerated() {
            let tag = OriginTag(timestamp: ChangesetTime(index % 3), ident: 2)
            ours.append(try decode(bytes, version: UInt64(index) + 1, tag: tag))
        }
        for (index, bytes) in incoming.enumerated() {
            let tag = OriginTag(timestamp: ChangesetTime(index % 2), ident: index % 4 == 3 ? 2 : 3)
            theirs.append(try decode(bytes, version: UInt64(index) + 1, tag: tag))
        }
        for run in runs {
            merge.begin(local: ours, incoming: Array(theirs[run]), in: self)
            var isFinished = false
            while !isFinished {
                isFinished = try merge.advance(in: &self, pairs: pairs)
                afterStep(merge)
            }
        }
    }

    var bytesOfAll: [[UInt8]] { changesets.map { encoded($0) } }
}
