import AnabranchOverTheAir
import AnabranchPropertyList
import Testing

@Suite struct CommandTests {
    private static func status(_ name: String, _ params: PropertyListDictionary) -> Status? {
        do throws(Status) {
            _ = try Command(MessageItem(name, 1, params))
            return nil
        } catch { return error }
    }

    /// The examples of the chapter.
    @Test func examples() throws {
        let start = try PropertyList(
            parsing: """
                <plist version="1.0"><dict><key>uri</key><string>com.apple.Contacts</string>
                  <key>anchors</key><dict>
                   <key>mode</key><string>fast</string>
                   <key>direction</key><string>twoway</string>
                   <key>device_version</key><string>1A543a</string>
                   <key>last_device_anchor</key><string>d41</string>
                   <key>next_device_anchor</key><string>d42</string>
                   <key>last_server_anchor</key><string>5f0e.1180.C</string>
                  </dict></dict></plist>
                """.utf8)
        var anchors = Anchors()
        (anchors.mode, anchors.direction, anchors.deviceVersion) = (.fast, .both, "1A543a")
        (anchors.lastDeviceAnchor, anchors.nextDeviceAnchor) = ("d41", "d42")
        anchors.lastServerAnchor = "5f0e.1180.C"
        let item = MessageItem("sync-start", 1, try #require(start.dictionary))
        #expect(try Command(item) == .start(uri: "com.apple.Contacts", anchors))
        #expect(Command.start(uri: "com.apple.Contacts", anchors).item(1) == item)

        let sent = try PropertyList(
            parsing: """
                <plist version="1.0"><dict><key>uri</key><string>com.apple.Contacts</string>
                  <key>item_type</key><string>changes</string>
                  <key>items</key><dict>
                   <key>17</key><dict><key>op</key><string>modify</string>
                     <key>set</key><dict><key>first name</key><string>Ann</string></dict>
                     <key>clear</key><array><string>nickname</string></array></dict>
                   <key>21</key><dict><key>op</key><string>delete</string></dict>
                  </dict></dict></plist>
                """.utf8)
        let changes = MessageItem("sync-changes", 2, try #require(sent.dictionary))
        guard case .changes(let uri, let content) = try Command(changes) else {
            Issue.record("no changes")
            return
        }
        #expect(
            uri == "com.apple.Contacts" && content.itemType == .changes && Array(content.items.keys) == ["17", "21"])
        #expect(
            try content.item("17")
                == .modify(entity: nil, set: ["first name": "Ann"], clear: ["nickname"], conflict: nil))
        #expect(try content.item("21") == .delete(entity: nil))
        #expect(Command.changes(uri: uri, content).item(2) == changes)
    }

    @Test func commandsComeBack() throws {
        var anchors = Anchors()
        (anchors.mode, anchors.direction, anchors.serverVersion) = (.reset, .toDevice, "2")
        (anchors.nextDeviceAnchor, anchors.nextServerAnchor) = ("d", "s")
        (anchors.filterAnchor, anchors.resetAnchor) = ("f", "r")
        let commands: [Command] = [
            .get(uri: "deviceinfo"), .put(uri: "deviceinfo", value: ["model": "a"], itemType: "b"), .delete(uri: "a"),
            .put(uri: "a", value: 1, itemType: nil), .start(uri: "a", anchors), .commit(uri: "a", anchors),
            .commit(uri: "a", Anchors()), .cancel(uri: "a"), .changes(uri: "a", Changes()),
            .changes(uri: "a", Changes(.records, ["1": [:]], idMap: ["U": "L"], anchors: anchors)),
        ]
        for command in commands { #expect(try Command(command.item(1)) == command) }
        #expect(Command.changes(uri: "a", Changes()).item(1).params["items"] == [])
    }

    @Test func parameters() {
        let start: PropertyListDictionary = ["uri": "a", "anchors": ["next_device_anchor": "d"]]
        #expect(Self.status("sync-start", start) == nil)
        for (name, key, value, code) in [
            ("sync-start", "uri", nil, .missingParam), ("sync-start", "uri", "", .paramError),
            ("sync-start", "uri", 1, .paramError), ("sync-start", "anchors", nil, .missingParam),
            ("sync-start", "anchors", [], .paramError), ("sync-start", "anchors", [:], .missingParam),
            ("sync-start", "anchors", ["next_device_anchor": 1], .paramError),
            ("sync-start", "anchors", ["next_device_anchor": "d", "mode": "quick"], .paramError),
            ("sync-start", "anchors", ["next_device_anchor": "d", "direction": "both"], .paramError),
            ("sync-commit", "anchors", nil, .missingParam), ("sync-cancel", "anchors", 1, .paramError),
            ("put", "value", nil, .missingParam), ("put", "value", [.real(.nan)], .badValue),
            ("sync-changes", "items", nil, .missingParam), ("sync-changes", "items", ["1"], .paramError),
            ("sync-changes", "items", "a", .paramError), ("get", "uri", nil, .missingParam),
        ] as [(String, String, PropertyList?, StatusCode)] {
            var params = start
            params[key] = value
            let status = Self.status(name, params)
            #expect(
                status?.knownCode == code && status?.paramName == key, "\(name) \(key): \(String(describing: status))")
        }
        let put: PropertyListDictionary = ["uri": "a", "value": 1, "item_type": 1]
        #expect(Self.status("put", put) == Status(.paramError, "no text", paramName: "item_type"))
        #expect(Self.status("sync-sync", start)?.knownCode == .unknownCommand)
    }

    @Test func formsOfChanges() throws {
        for (value, type) in [("record", .records), ("records", .records), ("change", .changes), ("changes", .changes)]
            as [(PropertyList, Changes.ItemType)]
        {
            #expect(try Changes(["items": ["1": [:]], "item_type": value]).itemType == type)
        }
        #expect(try Changes(["items": []]) == Changes())
        #expect(try Changes(["items": [:]]) == Changes())
        for (params, name) in [
            (["items": ["1": [:]]], "item_type"), (["items": [], "item_type": "rows"], "item_type"),
            (["items": [], "idmap": []], "idmap"), (["items": [], "idmap": ["U": 1]], "idmap"),
            (["items": [], "idmap": ["U": ""]], "idmap"), (["items": [], "anchors": 1], "anchors"),
        ] as [(PropertyListDictionary, String)] {
            #expect { try Changes(params) } throws: { ($0 as? Status)?.paramName == name }
        }
    }

    @Test func itemsComeBack() throws {
        let records: [Changes.Item] = [
            .record(entity: "contact", fields: ["a": 1, "é": "x"], unchanged: ["e\u{301}", "image"]),
            .record(entity: "contact", fields: [:], unchanged: []), .deletedRecord(entity: "contact"),
        ]
        let changes: [Changes.Item] = [
            .add(entity: "contact", set: ["a": ["L1", "L2"]]), .add(entity: "contact", set: [:]), .delete(entity: nil),
            .modify(entity: "contact", set: ["a": 1], clear: ["b"], conflict: ["a": ["server": 1, "device": 2]]),
            .modify(entity: nil, set: [:], clear: [], conflict: nil), .delete(entity: "contact"),
        ]
        for (type, items) in [(Changes.ItemType.records, records), (.changes, changes)] {
            for item in items { #expect(try Changes(type, ["1": Changes.propertyList(item)]).item("1") == item) }
        }
    }

    /// Each item for itself: the others of the command are understood.
    @Test func badItemsAreNamed() throws {
        let refused = try PropertyList(parsing: "<plist><date>yesterday</date></plist>".utf8)
        let records: [PropertyList] = [
            "text", [:], ["entity": 1, "fields": [:]], ["entity": "a"], ["fields": [:]], ["entity": "a", "fields": 1],
            ["entity": "a", "fields": [:], "deleted": true], ["entity": "a", "deleted": false],
            ["entity": "a", "fields": ["b": refused]], ["entity": "a", "fields": ["b": [.real(.infinity)]]],
        ]
        let changes: [PropertyList] = [
            [], [:], ["op": "upsert"], ["op": "add"], ["op": "add", "entity": "a", "set": []],
            ["op": "modify", "clear": "b"], ["op": "modify", "clear": [1]], ["op": "modify", "set": ["b": refused]],
            ["op": "modify", "conflict": 1], ["op": "delete", "entity": 1], refused,
        ]
        for (type, items) in [(Changes.ItemType.records, records), (.changes, changes)] {
            for item in items {
                let good: PropertyList = ["entity": "a", "fields": [:], "op": "delete"]
                let command = Changes(type, ["1": item, "2": good])
                #expect(throws: Never.self) { try command.item("2") }
                #expect { try command.item("1") } throws: { error in
                    guard let status = error as? Status else { return false }
                    return status.knownCode == .badValue && status.paramName == "items" && status.paramKey == "1"
                }
            }
        }
    }
}
