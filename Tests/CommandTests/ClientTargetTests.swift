import AnabranchCore
import AnabranchRules
import ArgumentParser
import CommandSupport
import Foundation
import Testing

@testable import anabranch

/// Which replica `--path` means.
@Suite struct ClientTargetTests {
    @Test(arguments: ["42", "42.0", #"{ "$numberInt" : "42" }"#, #"{"$numberLong":"42"}"#])
    func spellingsOfAPartitionAreOneReplica(partition: String) throws {
        let target = try ClientTarget("a/" + partition)
        #expect(target.partition == #"{"$numberLong":"42"}"#)
        #expect(try target.fileName == ClientTarget(#"a/{"$numberLong":"42"}"#).fileName)
    }

    /// A number that is not JSON of any type is not text either.
    @Test(arguments: ["1e400", "-1e999", "1.5", "true", #"{"$numberDouble":"1e400"}"#, #"{"$minKey":1}"#])
    func importsMakeNoFileOfWhatNamesNoPartition(value: String) throws {
        let document = try DocumentValue(line: Array(value.utf8))
        #expect(throws: LineError.self) { try PartitionField(app: "a", name: "p").path(of: document) }
    }

    @Test func flexibleSyncAndClientsWithoutAppHaveNamesAsBefore() throws {
        #expect(try (ClientTarget("pets").fileName, ClientTarget("pets").partition) == ("pets", nil))
        #expect(try ClientTarget("/\"p\"").fileName == "%2F%22p%22")
    }

    /// `--path` is what listings and the server's commands show.
    @Test func bytesMayStandAsListingsShowThem() throws {
        #expect(try ClientTarget(#"a/"%c3%bc%20%25""#).partition == "\"\u{fc} %\"")
        #expect(try ClientTarget(#"a/"\u00fc %""#).partition == "\"\u{fc} %\"")
        #expect(throws: InputError.self) { try ClientTarget(#"a/"%ff""#) }
    }

    /// Older versions named it after the text of the path.
    @Test func aReplicaStaysWhereItIs() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let options = try ClientOptions.parse(["--data", folder, "--path", "a/42"])
        #expect(try options.file().hasSuffix("a%2F%7B%22%24numberLong%22%3A%2242%22%7D.replica"))
        try Data().write(to: URL(fileURLWithPath: folder + "/a%2F42.replica"))
        #expect(try options.file() == folder + "/a%2F42.replica")
    }
}
