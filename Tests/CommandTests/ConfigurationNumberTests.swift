import AnabranchHistory
import AnabranchServer
import Testing

@testable import anabranch

/// Numbers of a configuration: one form of each, whoever reads it.
@Suite struct ConfigurationNumberTests {
    private static func complaint(_ yaml: String? = nil, environment: [String: String] = [:]) -> String {
        ConfigurationTests.complaint(yaml, environment: environment)
    }

    /// YAML's older readers take some of these for other numbers, or for the same one, and newer ones for texts.
    @Test(arguments: [
        "060", "00", "+5", "-0", "0x10", "0o17", "0b1", "1_000", "1e3", "5.0", "5.", ".5", "'5 '", "' 5'", "''", "~",
        "٥", "18446744073709551616", "1:30",
    ]) func aNumberIsWhatItsDigitsSay(_ text: String) {
        for setting in Setting.all where setting.allowed.hasPrefix("a whole number") {
            let name = setting.nameInSection ?? setting.name, line = "\(name): \(text)"
            let yaml = setting.nameInSection == nil ? line : "history: {\(line)}"
            #expect(Self.complaint(yaml).contains("\(name): cannot be '"), "\(yaml)")
        }
        let value = text.filter { $0 != "'" }, environment = ["ANABRANCH_HISTORY_OFFLINE_DAYS": value]
        #expect(Self.complaint(environment: environment).contains("ANABRANCH_HISTORY_OFFLINE_DAYS: cannot be"))
        #expect(Self.complaint("listen: '127.0.0.1:\(value)'").contains("cannot be '"))
        // Blanks may stand around a network.
        guard !value.hasSuffix(" ") else { return }
        #expect(Self.complaint("trusted-proxies: '10.0.0.0/\(value), ::1'").contains("cannot be '"))
    }

    @Test(arguments: ["02", "+2", "0x1p1", "2.", ".5", "nan", "inf", "1_0", "1e400"])
    func aRatioIsANumberOfJSON(_ text: String) {
        #expect(Self.complaint("history: {generation-ratio: \(text)}").contains("cannot be '\(text)'"))
    }

    @Test func smallRatiosAreReadAsTheyArePrinted() throws {
        let small = try ConfigurationTests.configuration("history: {generation-ratio: 0.00001}\n")
        #expect(try ConfigurationTests.configuration(small.yaml).history.generationRatio == 0.00001)
    }

    /// Some read numbers with a zero before them as octal ones: this is no address of this machine alone.
    @Test func anAddressThatIsReadInTwoWaysIsNotTakenForLoopback() {
        #expect(Self.complaint("listen: 0127.0.0.1:9090").contains("0127.0.0.1 is not a loopback address"))
    }
}
