import Foundation
import Testing

@testable import AnabranchServer

/// Settings and rules that pages show are read as the server reads them.
@Suite struct PageConfigurationTests {
    @Test func everyBlockOfYAMLIsRead() throws {
        var count = 0
        for page in try Pages.all() {
            for block in try Pages.blocks(in: "yaml", of: page) {
                count += 1
                if block.contains(/(^|\n)rules:\n/) {
                    let rules = try PermissionRule.rules(inYAML: block)
                    #expect(rules.compactMap(\.notice) == [], "\(page)")
                    #expect(rules.allSatisfy { !$0.sentence.isEmpty })
                } else {
                    let complaint = try Self.withRegistration(of: page) { file in
                        ConfigurationTests.complaint(block.replacing("contacts.json", with: file))
                    }
                    #expect(complaint == "", "\(page): \(block)")
                }
            }
        }
        #expect(count > 15)
    }

    /// A configuration is read together with the dataclasses that it registers: the page shows one as JSON.
    private static func withRegistration(of page: String, _ body: (_ file: String) throws -> String) throws -> String {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        let shown = try Pages.blocks(in: "json", of: page).first { $0.contains(#""dataclass""#) }
        try Data((shown ?? "").utf8).write(to: file)
        return try body(file.path)
    }

    @Test(arguments: [
        ("{path: '*', right: write}", "everybody may read and write every partition"),
        ("{path: '*', right: none}", "nobody may open any partition"),
        (#"{path: '"a"', app: b, right: read}"#, #"users of b may read the partition "a""#),
        (#"{path: '"a*"', users: [u1], right: read}"#, #"the users u1 may read the partitions that fit "a*""#),
        (
            #"{path: '"a"', providers: [api-key, anon-user], data: {level: 3}, right: read}"#,
            #"users who log in by anon-user or api-key and have {"level":3} in their custom data "#
                + #"may read the partition "a""#
        ),
    ])
    func aRuleInWords(rule: String, words: String) throws {
        #expect(try PermissionRule.rules(inYAML: "rules: [\(rule)]").map(\.sentence) == [words])
    }
}
