import Testing

/// Rules that a reader may take for granted in every file.
@Suite struct TidyTests {
    private static let linesMax = 400
    private static let columnsMax = 120
    /// Expected output, and changesets in hexadecimal, stand on one line.
    private static let withLongLiterals = ["DescriptionTests", "WorkedExamplesTests"].map {
        "Tests/AnabranchCoreTests/Changeset/\($0).swift"
    }

    @Test func noFileIsLong() throws {
        let long = try Repository.files(in: "Sources", "Tests", "Examples")
            .filter { $0.lines.count > TidyTests.linesMax }.map(\.path)
        #expect(long.isEmpty, "more than \(TidyTests.linesMax) lines, so more than one reason: \(long.listed)")
    }

    /// The formatter leaves comments and literals as they are.
    @Test func noLineIsLong() throws {
        let files = try Repository.files(in: "Sources", "Tests", "Examples", "Benchmarks/Benchmarks")
            .filter { !TidyTests.withLongLiterals.contains($0.path) }
        let places = files.places { line in
            line.utf8.count > TidyTests.columnsMax && line.count > TidyTests.columnsMax
                ? "\(line.count) characters" : nil
        }
        #expect(places.isEmpty, "longer than \(TidyTests.columnsMax) characters: \(places.listed)")
    }

    @Test func nothingPromisesLaterWork() throws {
        let promise =
            /\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K]|(?:not |un)implemente[d]|place[h]older|for[ ]now|simplifie[d])\b/
            .ignoresCase()
        let files =
            try Repository.files(in: "Sources", "Tests") + Repository.files(in: "scripts", suffix: "")
            + [TextFile("README.md")]
        let suspects = files.filter {
            $0.mentions("tod", "fixm", "xx", "hac", "mplemente", "placeh", "or now", "implifie")
        }
        let places = suspects.places { line in
            line.firstMatch(of: promise).map { "promises later work: \($0.output)" }
        }
        #expect(places.isEmpty, "\(places.listed)")
    }

    /// "The limits of the decoder", not "What the decoder allows".
    @Test func commentsNameTheThingFirst() throws {
        let words = /^\s*\/\/\/ (?:What|Whether|Who|Why)\b/
        let places = try Repository.files(in: "Sources").places { line in
            line.contains("/// W") && line.contains(words) ? "name the thing first" : nil
        }
        #expect(places.isEmpty, "\(places.listed)")
        // Tests state what holds, sometimes in sentences that begin so.
        let others = try Repository.files(in: "Tests").reduce(0) { count, file in
            count + file.lines.filter { $0.contains("/// W") && $0.contains(words) }.count
        }
        #expect(others <= 100)
    }

    /// Whatever comes later comes after something. It is behind a proxy, or late.
    @Test func behindIsAPlaceOrADelay() throws {
        let late =
            /(?:left|is|was|are|be|stays?|far|further|seconds|cursor|waite?d?) behind|(?:leaves?|left) .*behind/
        let place = /(?:answers|door|login|server|file) behind|[Bb]ehind (?:a proxy|a URL|any socket|the back)|"Behind"/
        let rule = { (line: String) -> String? in
            guard line.contains("ehind"), line.contains(/\b[Bb]ehind\b/) else { return nil }
            guard !line.contains(late), !line.contains(place) else { return nil }
            return "say after, below or following"
        }
        let files =
            try Repository.files(in: "Sources") + Repository.files(in: "Spec", "Sources", suffix: ".md")
            + Repository.files(in: "Sources", suffix: ".js")
            + ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map { try TextFile($0) }
        // Names in tests say what they like; their comments are read.
        let tests = try Repository.files(in: "Tests").places { line in
            line.contains(/^\s*\/\//) ? rule(line) : nil
        }
        let places = files.places(rule) + tests
        #expect(places.isEmpty, "\(places.listed)")
    }

    /// Something is recorded, counted, marked, logged or reported.
    @Test func verbsSayWhatIsDone() throws {
        let verb = /func not[e]\b/
        let places = try Repository.files(in: "Sources", "Tests", "Examples").places { line in
            line.contains(verb) ? "say what is done: record, count, mark, log, report" : nil
        }
        #expect(places.isEmpty, "\(places.listed)")
    }

    /// Nothing that a peer sent may end the process.
    @Test func nothingTrapsOnWhatAPeerSent() throws {
        let trap = /\btry!|\bas!|\bfatalError\(|[\w\])]!(?!=)/
        let files = try Repository.files(
            in: "Sources/AnabranchCore", "Sources/AnabranchQuery", "Sources/AnabranchRules",
            "Sources/AnabranchProtocol", "Sources/AnabranchHistory", "Sources/AnabranchRealmFile",
            "Sources/AnabranchSimperium", "Sources/AnabranchSimperiumWire", "Sources/AnabranchPropertyList",
            "Sources/AnabranchOverTheAir", "Sources/AnabranchOverTheAirDevice", "Sources/AnabranchOverTheAirWire")
        let places = files.places { line in
            guard line.contains("!") || line.contains("fatalError") else { return nil }
            return line.withoutLiteralsAndComment.firstMatch(of: trap).map { "may trap: \($0.output)" }
        }
        #expect(places.isEmpty, "\(places.listed)")
    }

    /// A precondition is a contract with the program that uses the library, or with the library itself.
    @Test func onlyContractsWithTheCallerStopTheProcess() throws {
        let contracts: Set = [
            "Invariant.swift", "CountedTree.swift", "GlobalKeyAdoption.swift", "ServerConnection.swift",
            "ClientSession.swift", "ErrorMessage.swift", "ArrayNode.swift", "RecordObserver.swift",
            "ValueReplacement.swift",
        ]
        let check = /\b(?:precondition|preconditionFailure|assert|assertionFailure)\(/
        let files = try Repository.files(
            in: "Sources/AnabranchCore", "Sources/AnabranchQuery", "Sources/AnabranchRules",
            "Sources/AnabranchProtocol", "Sources/AnabranchHistory", "Sources/AnabranchRealmFile",
            "Sources/AnabranchSimperium", "Sources/AnabranchSimperiumWire", "Sources/AnabranchPropertyList",
            "Sources/AnabranchOverTheAir", "Sources/AnabranchOverTheAirDevice", "Sources/AnabranchOverTheAirWire")
        let stopping = files.filter { file in
            file.mentions("recondition", "assert")
                && file.lines.contains { $0.withoutLiteralsAndComment.contains(check) }
        }
        #expect(Set(stopping.map(\.name)) == contracts, "has a precondition, or is said to: see each of them")
    }

    /// The packages that build our sources in a folder of their own understand them as the package itself does.
    @Test func everyPackageHasTheSameFeaturesOfTheLanguage() throws {
        let features = try ["", "Tests/Checked/", "Tests/Fuzz/", "Tests/Mutants/"].map { folder in
            try TextFile("\(folder)Package.swift").lines.filter { $0.hasPrefix("let upcomingFeatures = ") }
        }
        #expect(features[0].count == 1)
        #expect(features.allSatisfy { $0 == features[0] }, "\(features)")
    }

    @Test func noTestSleeps() throws {
        let sleep = /slee[p]\(/
        let places = try Repository.files(in: "Tests").places { line in
            line.contains(sleep) ? "wait for what happens, not for a time" : nil
        }
        #expect(places.isEmpty, "\(places.listed)")
    }

    /// A limit also counts the time in which a test waits for the others: minutes, where there are two processors.
    @Test func limitsOfTimeAreThereForWhatHangs() throws {
        let places = try Repository.files(in: "Tests").places { line in
            line.contains("timeLimi" + "t(") && !line.contains("(.minutes(30))") ? "30 minutes, like all others" : nil
        }
        #expect(places.isEmpty, "\(places.listed)")
    }

    @Test func noPathOfOneMachineIsTracked() throws {
        let machine = /\/(?:wor[k]|far[m]|roo[t]|hom[e]|User[s])\/|\/op[t]\/swift|\/tm[p]\/[a-z]/
        let data = [".jsonl", ".zst", ".gz", ".bin"]
        let files = try Repository.trackedPaths()
            .filter { path in Repository.exists(path) && !data.contains { path.hasSuffix($0) } }
            .map { try TextFile($0) }.filter { $0.mentions("/wor", "/far", "/roo", "/hom", "/user", "/op", "/tm") }
        let places = files.places { line in line.firstMatch(of: machine).map { "a path of one machine: \($0.output)" } }
        #expect(places.isEmpty, "\(places.listed)")
    }

    @Test func nothingBuiltIsTracked() throws {
        let built = /(?:^|\/)(?:\.build|Package\.resolved|node_modules)(?:\/|$)|\.o$/
        let paths = try Repository.trackedPaths().filter { $0.contains(built) }
        #expect(paths.isEmpty, "made by a build, must not be tracked: \(paths.listed)")
    }
}
