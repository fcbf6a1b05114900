import ArgumentParser
import CommandSupport

struct AttackSuiteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attack",
        abstract: "Attack a server by what one user can do, and say what it costs all others.",
        discussion: """
            Each attack has a server of its own, with two apps of flexible sync and one with partitions, of which the \
            first one is attacked. Bystanders write and read on four partitions and on both other apps, each after \
            what it wrote before, alone first and then during the attack; what is under way at the end counts.

            Every line begins with the name of the attack. "figure NAME VALUE UNIT" was measured; of costs those of \
            the bystanders are taken off. "verdict NAME VALUE <= BOUND UNIT kept" (or "missed") was to be so: "app" \
            are the bystanders of what is attacked, "others" all others. The exit status is 1 if a bound was missed. \
            An attack is cut off after a minute or two, and says so; a server is ended that needs more than 6 GiB.

            EXAMPLES
              anabranch-lab attack list
              anabranch-lab attack merge-nan pictures --serve .build/release/anabranch
              anabranch-lab attack pictures --counts objects=3,clients=5 \\
                  --serve .build/release/anabranch
              anabranch-lab attack all --serve .build/release/anabranch
            """)

    @Argument(help: ArgumentHelp("Which ones, 'all', or 'list' to see what there is.", valueName: "attack"))
    var names: [String]

    @OptionGroup var program: ServedProgram

    @Option(help: ArgumentHelp("Other numbers than those of the list, with commas between.", valueName: "name=number"))
    var counts = ""

    @Option(help: "How long the bystanders are measured alone.")
    var aloneSeconds = 3.0

    @Option(help: "After how many seconds an attack is cut off, if not after those that it has itself.")
    var seconds: Double?

    func validate() throws {
        guard aloneSeconds > 0, seconds ?? 1 > 0 else { throw ValidationError("All numbers must be more than 0.") }
        guard names != ["list"] else { return }
        let attacks = try attacks
        for name in try numbers.keys where !attacks.allSatisfy({ $0.counts[name] != nil }) {
            throw ValidationError("--counts: '\(name)' is nothing that each of these attacks counts.")
        }
    }

    private var attacks: [Attack] {
        get throws {
            if names == ["all"] { return Attack.all }
            return try names.map { name in
                guard let attack = Attack.named(name) else {
                    throw ValidationError("There is no attack '\(name)': see anabranch-lab attack list.")
                }
                return attack
            }
        }
    }

    private var numbers: [String: Int] {
        get throws {
            try counts.split(separator: ",").reduce(into: [:]) { numbers, part in
                let sides = part.split(separator: "=", omittingEmptySubsequences: false)
                guard sides.count == 2, let number = Int(sides[1]), number >= 0 else {
                    throw ValidationError("--counts: '\(part)' has to be like objects=100.")
                }
                numbers[String(sides[0])] = number
            }
        }
    }

    func run() async throws {
        guard names != ["list"] else {
            for attack in Attack.all {
                let counts = attack.counts.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
                print("\(attack.name): \(attack.summary)\(counts.isEmpty ? "" : " (\(counts.joined(separator: ",")))")")
            }
            return
        }
        OpenFileLimit.raise()
        let signals = EndingSignals()
        defer { signals.cancel() }
        let options = AttackRun.Options(
            binary: try program.path(), counts: try numbers, aloneSeconds: aloneSeconds, cutOffSeconds: seconds)
        var missed = 0
        for attack in try attacks { missed += try await AttackRun.run(attack, options) }
        guard missed == 0 else { throw ExitCode.failure }
    }
}
