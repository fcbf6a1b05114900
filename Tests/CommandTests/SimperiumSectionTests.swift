import AnabranchSimperiumWire
import Foundation
import Testing

@testable import anabranch

/// The buckets that Simperium's clients sync, in the configuration file.
@Suite struct SimperiumSectionTests {
    private static let secrets = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Fixtures/simperium/secrets.json").path()

    private static func app(_ section: String, _ app: String = "providers: [local-userpass]") -> String {
        "apps: {notes: {\(app), simperium: \(section)}}"
    }

    @Test func bucketsAreReadAsTheyArePrinted() throws {
        let yaml = Self.app(
            """
            {buckets: {note:
                {form: deep, missing-sv: merge, strict-deletes: true, entity-bytes: 4096, heal-node: false}}}
            """)
        let configuration = try ConfigurationTests.configuration(yaml), app = configuration.simperium["notes"]
        #expect(app?.buckets["note"]?.form == .deep && app?.buckets["note"]?.mergesWithoutVersion == true)
        #expect(app?.buckets["note"]?.deletesStrictly == true && app?.buckets["note"]?.entityBytesMax == 4_096)
        #expect(app?.buckets["note"]?.healsNode == false)
        #expect(app?.otherBuckets == BucketSettings())
        for section in [
            "{}", "{buckets: {note: {form: typed, shared: true}}}", "{other-buckets: refuse, buckets: {note: {}}}",
            "{api-keys: [\(Self.secrets)], administrators: [\(Self.secrets)]}",
        ] {
            let configuration = try ConfigurationTests.configuration(Self.app(section))
            #expect(try ConfigurationTests.configuration(configuration.yaml).simperium == configuration.simperium)
        }
        #expect(try ConfigurationTests.configuration(configuration.yaml).simperium == configuration.simperium)
    }

    @Test(arguments: [
        ("7", "simperium: cannot be '7'"), ("{bucket: {}}", "bucket"), ("{buckets: [note]}", "cannot be a list"),
        ("{buckets: {a b: {}}}", "'a b' cannot be a bucket"),
        ("{buckets: {note: {form: wide}}}", "form: cannot be 'wide'; allowed: flat, deep, typed"),
        ("{buckets: {note: {missing-sv: yes}}}", "missing-sv: cannot be 'yes'"),
        ("{buckets: {note: {strict-deletes: 1}}}", "strict-deletes: cannot be '1'"),
        ("{buckets: {note: {entity-bytes: 99}}}", "allowed: a whole number from 1024 to 3145728"),
        ("{buckets: {note: {heal-node: 1}}}", "heal-node: cannot be '1'"),
        ("{buckets: {note: {capacity: 9}}}", "capacity is not served (Spec/Simperium.md, section 14); allowed: form, "),
        ("{buckets: {note: {shared: 1}}}", "shared: cannot be '1'; allowed: true, false"),
        ("{administrators: ann}", "administrators: cannot be 'ann'; allowed: a list of files"),
        ("{api-keys: [/none.json]}", "/none.json: "),
        ("{other-buckets: refuse}", "no bucket would be served"), ("{other-buckets: no}", "allowed: allow, refuse"),
    ])
    func mistakesAreTold(section: String, complaint: String) {
        #expect(ConfigurationTests.complaint(Self.app(section)).contains(complaint))
    }

    @Test func theAppHasToSuit() {
        let flexible = ConfigurationTests.complaint(Self.app("{}", "providers: [local-userpass], sync: flexible"))
        #expect(flexible.contains("simperium: only with sync: partition"))
        let anonymous = ConfigurationTests.complaint(Self.app("{}", "providers: [anon-user]"))
        #expect(anonymous.contains("simperium: only with the provider local-userpass"))
    }
}
