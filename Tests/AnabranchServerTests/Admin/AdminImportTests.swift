import AnabranchCore
import AnabranchHistory
import AnabranchTesting
import Testing

@testable import AnabranchServer

/// Lines of an export that the operator has the server write.
@Suite struct AdminImportTests {
    private static let path = "/v1/import?path=%2F%22notes%22"
    private static let classes = """
        {"anabranch_export":1}
        {"class":"Note","kind":"top-level","key":{"name":"_id","type":"int"},"properties":[\
        {"name":"next","type":"link","nullable":true,"target":"Note"},{"name":"title","type":"string"}]}

        """

    private func row(_ key: Int, _ fields: String) -> String { "[\"Note\",{\"int\":\"\(key)\"},\(fields)]\n" }

    private func refused(_ response: AppServicesRig.Response) -> [String] {
        (response.json?["refused"]?.array ?? []).map { refusal in
            "\(refusal["line"]?.integer ?? 0) \(refusal["field"]?.string ?? "-"): \(refusal["reason"]?.string ?? "")"
        }
    }

    @Test func aConnectedClientSeesItOnceAndTheRestOfALinkLater() async throws {
        try await withServerAndOperator { rig, client async throws in
            let lines =
                Self.classes + row(1, #"{"title":"a","next":{"link":["Note",{"int":"2"}]}}"#)
                + row(2, #"{"title":"b"}"#)
            let first = try await rig.admin("POST", Self.path, lines)
            #expect(first.json?["written"] == 2 && first.json?["unchanged"] == 0 && first.json?["refused"] == [])
            // The classes, and the objects.
            while client.received.count < 2 { try await client.receive() }
            let again = try await rig.admin("POST", Self.path, lines)
            #expect(again.json?["written"] == 0 && again.json?["unchanged"] == 2)
            #expect(again.json?["version"] == first.json?["version"], "nothing was written")
            var graph = ObjectGraph(), arena = ChangesetArena()
            for changeset in client.received {
                try graph.apply(
                    arena.decode(
                        changeset.changeset, version: changeset.cursor.serverVersion.rawValue, tag: changeset.tag),
                    of: arena)
            }
            let title = try graph.read { tx in
                let next = try #require(try tx.object("Note", key: 1))["next"]
                guard case .link(_, let key) = next else { return nil as Payload? }
                return try tx.object("Note", key: key)?["title"]
            }
            #expect(title == "b")
            let listed = try await rig.admin("GET", "/v1/classes?path=%2F%22notes%22").json?["classes"]?.array
            #expect(listed?.compactMap { $0["class"] } == ["Note"])
            #expect(try await rig.admin("GET", "/v1/classes?path=%2F%22none%22").json == ["classes": []])
        }
    }

    @Test func aLineWithAMistakeIsNamedAndTheOthersAreWritten() async throws {
        try await withServerAndOperator { rig, _ async throws in
            let lines =
                Self.classes + row(1, #"{"title":"a"}"#) + "{\n" + row(2, #"{"titel":"b"}"#)
                // The value is one, but not for this field: that is known when it is written.
                + row(3, #"{"title":{"int":"5"}}"#) + row(4, #"{"title":"d"}"#) + row(5, #"{"title":null}"#)
                + row(6, #"{"title":"f"}"#)
            let response = try await rig.admin("POST", Self.path, lines)
            #expect(response.status == 200 && response.json?["written"] == 3)
            let refused = refused(response)
            #expect(refused.map { $0.prefix { $0 != ":" } } == ["4 -", "5 titel", "6 title", "8 title"])
            #expect(refused.first == "4 -: not JSON at byte 1: a string is missing")
            #expect(refused.dropFirst().first == "5 titel: the class Note has no such field")
        }
    }

    /// Changes of a device are for another request: here nobody would make them.
    @Test func changesOfADeviceAreRefused() async throws {
        try await withServerAndOperator { rig, _ async throws in
            let change = #"{"change":"a","changeset":"","time":1,"version":1}"# + "\n"
            let response = try await rig.admin("POST", Self.path, Self.classes + row(1, #"{"title":"a"}"#) + change)
            #expect(response.status == 400)
            #expect(try await rig.admin("GET", "/v1/classes?path=%2F%22notes%22").json == ["classes": []])
        }
    }

    @Test func ifAskedItEndsAtTheFirstMistake() async throws {
        try await withServerAndOperator { rig, _ async throws in
            let first = row(1, #"{"title":"a"}"#), last = row(3, #"{"title":"c"}"#)
            for (mistake, field) in [(#"{"titel":"b"}"#, "titel"), (#"{"title":{"int":"5"}}"#, "title")] {
                let lines = Self.classes + first + row(2, mistake) + last
                let response = try await rig.admin("POST", Self.path + "&strict=true", lines)
                #expect((response.json?["written"]?.integer ?? 0) + (response.json?["unchanged"]?.integer ?? 0) == 1)
                #expect(refused(response).map { $0.prefix { $0 != ":" } } == ["4 \(field)"])
            }
            let response = try await rig.admin("POST", Self.path, last)
            #expect(response.json?["written"] == 1, "it was not written before")
        }
    }

    /// Mistakes that are found when a line is read, and when it is written.
    @Test(
        "the list of refused lines ends, and their number does not",
        arguments: [
            (100_000, "a"), (20_000, "{}"), (3_000, #"["Note",{"int":"1"},{"titel":"b"}]"#),
            (3_000, "\"" + String(repeating: "é", count: 2_000) + "\""),
        ])
    func manyMistakes(count: Int, line: String) async throws {
        try await withServerAndOperator { rig, _ async throws in
            let lines = Self.classes + row(1, #"{"title":"a"}"#) + String(repeating: line + "\n", count: count)
            let response = try await rig.admin("POST", Self.path, lines + row(2, #"{"title":"b"}"#))
            #expect(response.json?["written"] == 2)
            #expect(response.json?["refused_count"]?.integer == Int64(count))
            #expect((1...ImportOutcome.refusedMax).contains(refused(response).count))
            #expect(refused(response).first?.hasPrefix("4 ") == true)
            #expect(response.body.utf8.count < 512 << 10)
            let strict = try await rig.admin("POST", Self.path + "&strict=true", lines)
            #expect(strict.json?["unchanged"] == 1 && strict.json?["refused_count"] == 1)
            #expect(refused(strict).count == 1)
        }
    }

    @Test("the list is bounded by bytes as well, also where outcomes are added")
    func longReasons() {
        var outcome = ImportOutcome(), other = ImportOutcome()
        let reason = String(repeating: "x", count: 2_000)
        for number in 1...900 {
            outcome.refuse(RefusedLine(number: number, error: LineError(field: reason, reason)))
            other.refuse(RefusedLine(number: number + 1_000, error: LineError("short")))
        }
        outcome.add(other)
        #expect(outcome.refusedCount == 1_800)
        #expect(outcome.json.encoded.utf8.count < 2 * ImportOutcome.refusedBytesMax)
        other.add(other)
        #expect(other.refusedCount == 1_800)
        #expect(other.json["refused"]?.array?.count == ImportOutcome.refusedMax)
    }

    @Test func classesThatDoNotFitAreRefusedAsAWhole() async throws {
        try await withServerAndOperator { rig, _ async throws in
            #expect(try await rig.admin("POST", Self.path, Self.classes).status == 200)
            let other = Self.classes.replacing("\"title\",\"type\":\"string\"", with: "\"title\",\"type\":\"int\"")
            let response = try await rig.admin("POST", Self.path, other + row(1, "{}"))
            #expect(response.status == 409)
            #expect(response.json?["error"] == "the classes do not fit: Note.title: the column exists and is different")
            #expect(try await rig.admin("POST", Self.path, token: "wrong", Self.classes).status == 401)
        }
    }

    /// Mistakes count as they do in a single write, wherever they are.
    @Test func manyLinesAreSeveralWrites() async throws {
        try await withServerAndOperator { rig, _ async throws in
            let text = String(repeating: "x", count: 1_000)
            let lines = (1...1_000).map { row($0, $0 % 300 == 0 ? #"{"title":null}"# : "{\"title\":\"\(text)\"}") }
            let response = try await rig.admin("POST", Self.path, Self.classes + lines.joined())
            #expect(response.json?["written"] == 997)
            #expect(refused(response).map { $0.prefix { $0 != ":" } } == ["302 title", "602 title", "902 title"])
            #expect(try #require(response.json?["version"]?.integer) > 4)
            let again = try await rig.admin("POST", Self.path, Self.classes + lines.joined())
            #expect(again.json?["unchanged"] == 997 && again.json?["version"] == response.json?["version"])
            let strict = try await rig.admin(
                "POST", Self.path + "&strict=true", lines[350...].joined().replacing("x", with: "y"))
            #expect(strict.json?["written"] == 249)
            #expect(refused(strict).map { $0.prefix { $0 != ":" } } == ["250 title"])
        }
    }

    @Test func anAppOfFlexibleSyncHasOneFile() async throws {
        try await AppServicesRig.run { settings in
            settings.flexibleApps = ["pets"]
        } _: { rig async throws in
            let lines = Self.classes + row(1, #"{"title":"a"}"#)
            #expect(try await rig.admin("POST", "/v1/import?path=pets", lines).json?["written"] == 1)
            #expect(try await rig.admin("POST", "/v1/import?path=pets", lines).json?["unchanged"] == 1)
            #expect(try await rig.admin("POST", "/v1/import?path=pets%2F%22a%22", lines).status == 400)
            #expect(try await rig.admin("POST", "/v1/import?path=cats", lines).status == 400)
            let unquoted = try await rig.admin("POST", "/v1/import?path=cats%2Fa", lines)
            #expect(unquoted.status == 400 && unquoted.body.contains(#"'cats/\"a\"'"#), "\(unquoted.body)")
            #expect(try await rig.admin("POST", "/v1/import", lines).status == 400)
        }
    }

    @Test func onlyTheOperatorCanSendMuch() async throws {
        try await withServerAndOperator { rig, _ async throws in
            let long = Self.classes + row(1, "{\"title\":\"\(String(repeating: "a", count: 200_000))\"}")
            #expect(try await rig.admin("POST", Self.path, long).json?["written"] == 1)
            #expect(try await rig.admin("POST", Self.path, token: nil, long).status == 413)
            #expect(try await rig.admin("POST", "/v1/users/add", long).status == 413)
        }
    }

    private func withServerAndOperator(_ body: (AppServicesRig, SyncClient) async throws -> Void) async throws {
        var settings = AppServicesRig.development
        settings.userWithoutToken = "ann"
        try await AppServicesRig.run(settings) { rig async throws in
            let client = SyncClient(partition: "\"notes\"") { rig.port }
            try await client.reconnect()
            try await body(rig, client)
        }
    }
}
