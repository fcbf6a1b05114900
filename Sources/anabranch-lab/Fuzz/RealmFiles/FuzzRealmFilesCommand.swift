import AnabranchTesting
import ArgumentParser
import CommandSupport

struct FuzzRealmFilesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "realm-files",
        abstract: "Read Realm files that are damaged at random.",
        discussion: """
            Bits are turned, files are cut off, headers, refs and numbers are changed, arrays stand in the place of \
            others. None may end the process, take more than a second, or make it grow by more than 256 MiB; each \
            that is refused has a reason, and damage a place. Case number i has the seed S + i and is repeated by it \
            alone. The exit status is 1 if something fails.

            EXAMPLES
              anabranch-lab fuzz realm-files --count 20000 --seed 1
              anabranch-lab fuzz realm-files --count 1 --seed 4711
            """)

    @Option(help: "The seed of the first case.")
    var seed: UInt64 = 1

    @Option(help: "How many cases.")
    var count = 20_000

    @Option(help: "A folder with files NAME.realm.gz, whole ones.")
    var vectors = "Tests/Vectors/RealmFiles"

    func validate() throws {
        guard count > 0 else { throw ValidationError("--count must be 1 or more.") }
    }

    func run() throws {
        let start = ContinuousClock.now, interruption = Interruption()
        let damage = try RealmFileDamage(folder: vectors)
        var fuzz = RealmFileFuzz(), failures = 0, done = 0, lastReport = start
        while done < count, failures < 10, !interruption.isAsked {
            let caseSeed = seed &+ UInt64(done), damaged = damage.makeCase(seed: caseSeed)
            if let problem = fuzz.problem(of: damaged) {
                failures += 1
                print("FAILED: \(damaged.source): \(damaged.damage)\n\(problem)")
                print("repeat: anabranch-lab fuzz realm-files --seed \(caseSeed) --count 1\n")
            }
            done += 1
            let now = ContinuousClock.now
            guard now - lastReport > RunProgress.interval else { continue }
            lastReport = now
            RunProgress.report("\(done) of \(count) cases", share: Double(done) / Double(count), after: now - start)
        }
        RunProgress.end()
        let tally = fuzz.tally, refused = tally.refused.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
        print("\(tally.readWhole) read, \(tally.salvaged) salvaged, refused: \(refused.joined(separator: ", "))")
        print("slowest \(tally.slowest) s, grown by \(fuzz.grownBytes >> 20) MiB")
        print("\(done - failures) passed, \(failures) failed")
        if failures > 0 { throw ExitCode.failure }
    }
}
