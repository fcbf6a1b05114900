import AnabranchTesting
import Foundation
import Testing

/// `anabranch import --only-pending` and `--from-device`: what devices have not uploaded, and what a server has.
@Suite(.timeLimit(.minutes(30)), .enabled(if: ServerProcess.executable != nil, "needs the built command"))
struct DeviceChangesTests {
    /// A device's file with two changes that wait: of the one, an element and a name; of the other, new objects.
    private static let name = "44-synced-merged-and-pending"
    private static let path = "/\"a\""

    private static func withDesk(_ body: (RealmFileDesk, ServerProcess) async throws -> Void) async throws {
        try await RealmFileDesk.with { desk in
            let server = try await ServerProcess(data: desk.folder + "/data")
            try await body(desk, server)
            await server.terminate()
        }
    }

    /// The objects that the device held before it wrote what waits, and a name that somebody else has written.
    private static func base(_ desk: RealmFileDesk, otherName: String) async throws -> String {
        let lines = try await AdminCommandTests.run(["realm-file", "export", try desk.file(name)]).text
        let base = lines.split(separator: "\n").filter { !$0.contains(/^\["Person",{"int":"2[01]"}/) }
            .map { $0 + "\n" }.joined()
            .replacing("\"theirs\",{\"int\":\"1\"},\"ours\"", with: "\"theirs\",{\"int\":\"1\"}")
            .replacing("\"name\":\"ours\"", with: "\"name\":\"\(otherName)\"")
        let path = desk.folder + "/base.jsonl"
        try Data(base.utf8).write(to: URL(fileURLWithPath: path))
        return path
    }

    @Test func aNewerValueStaysAndTheLossIsExplained() async throws {
        try await Self.withDesk { desk, _ in
            let file = try desk.file(Self.name)
            _ = try await desk.run("import", try await Self.base(desk, otherName: "newer"), "--path", Self.path)
            let arguments = ["import", file, "--path", Self.path, "--only-pending", "--from-device", "phone"]
            let first = try await desk.run(arguments)
            #expect(first.status == 0 && first.text == "2 changes made, 0 made before, 1 lost\n", "\(first.text)")
            let place = "lost: Update Person[0].name = String \"ours\" (2015-01-01T00:16:40.035Z)"
            #expect(first.complaint.hasPrefix("\(file) (phone): \(place): a newer value stays: \"newer\" (20"))
            let again = try await desk.run(arguments)
            #expect(again.text == "0 changes made, 2 made before, 0 lost\n", "\(again.text)")
            let held = try await desk.export(Self.path)
            let device = try await AdminCommandTests.run(["realm-file", "export", file]).text
            #expect(held.replacing("\"name\":\"newer\"", with: "\"name\":\"ours\"") == device)
        }
    }

    /// A device whose file was imported comes itself: the server does not know it, and it gets all that it had.
    @Test func aResetOfTheDeviceLosesNothing() async throws {
        try await Self.withDesk { desk, server in
            let file = try desk.file(Self.name)
            let base = try await Self.base(desk, otherName: "before")
            _ = try await desk.run("import", base, "--path", Self.path, "--as-of", "2014-12-31T00:00:00Z")
            let pending = try await desk.run("import", file, "--path", Self.path, "--only-pending")
            #expect(pending.text == "2 changes made, 0 made before, 0 lost\n", "\(pending.complaint)")
            let device = try await AdminCommandTests.run(["realm-file", "export", file]).text
            #expect(try await desk.export(Self.path) == device)
            let client = try await WebSocketClient.open(port: server.port)
            try await client.send("bind 1 3 0 0 0\n\"a\"")
            try await client.send("ident 1 5 55 3 0 3 1234605616436508552\n")
            let refusal = try await client.message()
            #expect(refusal.words.first == "json_error" && (208...211).contains(Int(refusal.words[1]) ?? 0))
            let read = try await AdminCommandTests.run([
                "client", "read", "--path", Self.path, "--url", "ws://127.0.0.1:\(server.port)",
                "--data", desk.folder + "/replica",
            ])
            #expect(read.status == 0, "\(read.complaint)")
            // The reset downloads what the import has made of the file, all of it.
            for line in device.split(separator: "\n") where line.hasPrefix("[") {
                let object = line.drop { $0 != "," }.dropFirst()
                #expect(read.text.contains("[\(object)"), "\(object)")
            }
        }
    }

    @Test func filesOfManyDevicesAreMergedInAnyOrder() async throws {
        try await Self.withDesk { desk, _ in
            let file = try desk.file(Self.name), base = try await Self.base(desk, otherName: "other")
            let first = try await desk.run("import", file, "--path", Self.path, "--from-device", "phone")
            #expect(first.status == 0)
            #expect(
                first.text
                    == "27 objects written, 0 unchanged, 0 lines refused\n2 changes made, 0 made before, 0 lost\n")
            let device = try await AdminCommandTests.run(["realm-file", "export", file]).text
            #expect(try await desk.export(Self.path) == device)
            let again = try await desk.run("import", file, "--path", Self.path, "--from-device", "phone")
            #expect(again.text.hasPrefix("0 objects written, 27 unchanged"))
            #expect(again.text.hasSuffix("0 changes made, 2 made before, 0 lost\n"), "\(again.text)")
            // A backup from before the changes does not undo them; what somebody wrote later does.
            _ = try await desk.run("import", base, "--path", Self.path)
            #expect(try await desk.export(Self.path).contains("\"name\":\"other\""))
            let kept = try await desk.run("import", file, "--path", Self.path, "--from-device", "tablet")
            #expect(kept.complaint.contains("(tablet), line 23: kept as the server has it"), "\(kept.complaint)")
        }
    }

    @Test func anAppOfFlexibleSyncHasOneFile() async throws {
        try await RealmFileDesk.with { desk in
            let configuration = desk.folder + "/anabranch.yaml"
            let text = "dev: true\napps:\n  pets:\n    sync: flexible\n    providers: [anon-user]\n"
            try Data(text.utf8).write(to: URL(fileURLWithPath: configuration))
            let server = try await ServerProcess(
                data: desk.folder + "/data", arguments: ["--config", configuration, "--listen", "127.0.0.1:0"])
            _ = try await desk.run("import", try await Self.base(desk, otherName: "newer"), "--path", "pets")
            let output = try await desk.run("import", try desk.file(Self.name), "--path", "pets", "--only-pending")
            #expect(output.text == "2 changes made, 0 made before, 1 lost\n", "\(output.complaint)")
            #expect(try await desk.export("pets").contains("[\"Person\",{\"int\":\"21\"},"))
            await server.terminate()
        }
    }

    /// All files of the vectors that have a history of a client: what is made of one is what it holds.
    @Test func aServerHoldsWhatEachDeviceHolds() async throws {
        try await Self.withDesk { desk, _ in
            let names = try FileManager.default.contentsOfDirectory(atPath: RealmFileDesk.vectors)
                .filter { $0.hasSuffix(".sync.json") }.map { String($0.dropLast(".sync.json".count)) }
            #expect(names.count > 10)
            for name in names.sorted() {
                let file = try desk.file(name),
                    key = name.contains("encrypted") ? ["--key-file", desk.folder + "/key"] : []
                let lines = String(
                    decoding: try GzipFile.contents(of: "\(RealmFileDesk.vectors)/\(name).jsonl.gz"), as: UTF8.self)
                let merged = ["import", file, "--path", "/\"\(name)\"", "--from-device", "phone"] + key
                let first = try await desk.run(merged), second = try await desk.run(merged)
                #expect(first.complaint.isEmpty, "\(name): \(first.complaint)")
                #expect(
                    second.text.hasPrefix("0 objects written") && second.text.contains("\n0 changes made"), "\(name)")
                let held = RealmFileDesk.withoutIdents(try await desk.export("/\"\(name)\""))
                #expect(held == RealmFileDesk.withoutIdents(lines), "\(name)")
                // What was imported as it is needs no change either.
                let plain = ["import", file, "--path", "/\"p\(name)\""] + key
                _ = try await desk.run(plain)
                let pending = try await desk.run(plain + ["--only-pending"])
                #expect(pending.text.contains(" 0 lost"), "\(name): \(pending.complaint)")
                let after = RealmFileDesk.withoutIdents(try await desk.export("/\"p\(name)\""))
                #expect(after == RealmFileDesk.withoutIdents(lines), "\(name)")
            }
        }
    }

    @Test func whatNoObjectIsThereForIsNamed() async throws {
        try await Self.withDesk { desk, _ in
            let output = try await desk.run("import", try desk.file(Self.name), "--path", Self.path, "--only-pending")
            #expect(output.status == 0 && output.text == "1 change made, 0 made before, 33 lost\n", "\(output.text)")
            #expect(
                output.complaint.contains("lost: Update Dog[\"dog 0\"].age = Int 20 (2015-01-01T00:16:40.042Z): the"))
            let local = try await desk.run("import", try desk.file("00-example"), "--path", Self.path, "--only-pending")
            #expect(local.status == 1 && local.complaint.contains("it is a local file, which uploads nothing"))
            let unconnected = try desk.file("40-synced-never-connected")
            for device in ["ann", "bob"] {
                let made = try await desk.run(
                    "import", unconnected, "--path", "/\"b\"", "--only-pending", "--from-device", device)
                #expect(made.status == 0 && made.complaint.isEmpty, "\(made.complaint)")
            }
            #expect(try await desk.export("/\"b\"").components(separatedBy: "\n[\"Free\",").count == 7)
        }
    }
}
