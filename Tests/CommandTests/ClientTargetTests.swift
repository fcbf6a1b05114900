import ArgumentParser
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

    @Test func flexibleSyncAndClientsWithoutAppHaveNamesAsBefore() throws {
        #expect(try (ClientTarget("pets").fileName, ClientTarget("pets").partition) == ("pets", nil))
        #expect(try ClientTarget("/\"p\"").fileName == "%2F%22p%22")
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
