import AnabranchOverTheAirWire
import Foundation
import Testing

@testable import anabranch

/// The dataclasses that devices sync, in the configuration file.
@Suite struct PropertyListSectionTests {
    private static let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Fixtures/ota/contacts.json").path()

    private static func app(_ section: String, _ app: String = "providers: [local-userpass]") -> String {
        "apps: {notes: {\(app), property-list: \(section)}}"
    }

    @Test func dataclassesAreReadAsTheyArePrinted() throws {
        let configuration = try ConfigurationTests.configuration(
            Self.app("{url: /devices, folder: simperium, dataclasses: [\(Self.file)]}"))
        let devices = try #require(configuration.overTheAir["notes"])
        #expect(devices.app.url == "/devices" && devices.app.dataclasses.map(\.uri) == ["example.contacts"])
        #expect(devices.app.folder == "simperium")
        #expect(try ConfigurationTests.configuration(configuration.yaml).overTheAir == configuration.overTheAir)
    }

    @Test(arguments: [
        ("7", "property-list: cannot be '7'"), ("{}", "dataclasses is missing"), ("{classes: []}", "classes"),
        ("{dataclasses: x}", "allowed: a list of files"), ("{dataclasses: [/none.json]}", "/none.json: "),
        ("{url: /1/x, dataclasses: [FILE]}", "url: cannot be '/1/x'"),
        ("{url: ota, dataclasses: [FILE]}", "allowed: a path such as /ota"),
        ("{folder: a/b, dataclasses: [FILE]}", "folder: cannot be 'a/b'"),
        ("{dataclasses: [FILE, FILE]}", "/dataclass: example.contacts is registered twice"),
    ])
    func mistakesAreTold(section: String, complaint: String) {
        let section = section.replacing("FILE", with: Self.file)
        #expect(ConfigurationTests.complaint(Self.app(section)).contains(complaint))
    }

    @Test func theAppHasToSuit() {
        let section = "{dataclasses: [\(Self.file)]}"
        let flexible = ConfigurationTests.complaint(Self.app(section, "providers: [anon-user], sync: flexible"))
        #expect(flexible.contains("property-list: only with sync: partition"))
    }

    @Test(arguments: [
        ("{", "it is not JSON"), ("{}", "/dataclass: missing"),
        (#"{"dataclass": "a", "entities": {}}"#, "/entities: there are none"),
        (#"{"dataclass": "a", "commit": "nobody", "entities": {}}"#, "/commit: allowed: server, device"),
        (
            #"{"dataclass": "a", "entities": {"e": {"class": "E", "fields": {"f": {"property": "p", "type": "x"}}}}}"#,
            "/entities/e/fields/f/type: allowed: string"
        ),
        (
            #"{"dataclass": "a", "entities": {"e": {"class": "E", "fields": {}, "identity": [["f"]]}}}"#,
            "/entities/e/identity/0: it is not a list of fields"
        ),
    ])
    func mistakesInFilesHaveAPlace(text: String, complaint: String) throws {
        let error = try #require(throws: DataclassError.self) { try Dataclass(parsing: Array(text.utf8)) }
        #expect(error.description.contains(complaint), "\(error)")
    }
}
