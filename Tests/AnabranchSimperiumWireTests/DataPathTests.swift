import Testing

@testable import AnabranchSimperiumWire

/// Paths and queries of requests for data (`Spec/Simperium.md`, section 12).
@Suite struct DataPathTests {
    @Test(
        arguments: [
            ("/1/a/note/index", .index), ("/1/a/note/index/", .index), ("/1/a/note/changes", .changes),
            ("/1/a/note/all", .all), ("/1/a/note/i/k", .entity(key: "k", version: nil)),
            ("/1/a/note/i/a%252Fb%20%C3%A9", .entity(key: "a%2Fb é", version: nil)),
            ("/1/a/note/i/a%2Fb/v/7", .entity(key: "a/b", version: 7)),
            ("/1/a/note/i/v/v/1", .entity(key: "v", version: 1)),
        ] as [(String, DataPath.Target)])
    func pathsAreRead(path: String, target: DataPath.Target) {
        #expect(DataPath(path)?.target == target)
        #expect(DataPath(path)?.app == "a" && DataPath(path)?.bucket == "note")
    }

    @Test(arguments: [
        "", "/", "/1/a/authorize/", "/1/a/create", "/2/a/note/index", "/1/a/note", "/1/a/note/other", "/1/a/note/i",
        "/1/a/note/i/k/v", "/1/a/note/i/k/v/0", "/1/a/note/i/k/v/-1", "/1/a/note/i/k/v/1/2", "/1/a/note/i/k/w/1",
        "/1/a/note/i/k/v/99999999999999999999", "/1/a/note/i/%zz", "/1/a/note/i/%ff", "/1/a/note/index/x",
    ])
    func otherPathsAreNone(path: String) {
        #expect(DataPath(path) == nil)
    }

    @Test func theLastValueOfANameCounts() throws {
        let query = try #require(FormFields("mark=a&mark=b&&data=1&x&response=true&replace=0&s=a+b%2B%26".utf8))
        #expect(query["mark"] == "b" && query.all("mark") == ["a", "b"] && query["x"] == "" && query["y"] == nil)
        #expect(query.isSet("data") && query.isSet("response") && !query.isSet("replace") && !query.isSet("y"))
        #expect(query["s"] == "a b+&")
        for malformed in ["a=%", "a=%f", "%zz=1", "a=%ff"] {
            #expect(FormFields(malformed.utf8) == nil, "\(malformed)")
        }
    }
}
