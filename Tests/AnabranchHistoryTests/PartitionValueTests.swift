import AnabranchCore
import AnabranchHistory
import Testing

@Suite struct PartitionValueTests {
    /// As clients send them (`Spec/Protocol.md`, section 4.2).
    @Test func aPathIsWhatClientsOfTheAppSend() throws {
        let id = try #require(ObjectID((0..<12).map { UInt8($0) }))
        let uuid = try #require(UUIDBytes((0..<16).map { UInt8($0) }))
        let paths: [(PartitionValue, String)] = [
            ("my partition", #""my partition""#), ("ü \u{7f}/", "\"ü \u{7f}/\""),
            ("a\"b\\c\n\r\t\u{8}\u{c}\u{1}\0", #""a\"b\\c\n\r\t\b\f\u0001\u0000""#),
            (7, #"{"$numberLong":"7"}"#), (.int32(-7), #"{"$numberInt":"-7"}"#),
            (.objectID(id), #"{"$oid":"000102030405060708090a0b"}"#),
            (.uuid(uuid), #"{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}"#), (nil, "null"),
        ]
        for (value, text) in paths {
            #expect(VirtualPath(app: "my-app", partition: value) == VirtualPath("my-app/" + text))
        }
        #expect(VirtualPath(app: "pets") == VirtualPath("pets"))
    }
}
