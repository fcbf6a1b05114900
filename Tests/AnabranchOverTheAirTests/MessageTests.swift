import AnabranchOverTheAir
import AnabranchPropertyList
import Testing

@Suite struct MessageTests {
    private static let header: PropertyListDictionary = [
        "version": "1.0", "deviceid": "8914", "service": "sync", "userid": "ann@example.com", "sequence": 1,
    ]

    private static func error(_ header: PropertyListDictionary, _ body: PropertyList = []) -> MessageError? {
        do throws(MessageError) {
            _ = try Message(["header": .dictionary(header), "body": body])
            return nil
        } catch { return error }
    }

    /// The example of the chapter.
    @Test func theSmallestMessage() throws {
        let text = """
            <?xml version="1.0" encoding="UTF-8"?>
            <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
            <plist version="1.0"><dict>
              <key>header</key><dict>
                <key>version</key><string>1.0</string> <key>deviceid</key><string>8914800000123456789</string>
                <key>service</key><string>sync</string> <key>userid</key><string>ann@example.com</string>
                <key>sequence</key><integer>1</integer> <key>final</key><true/></dict>
              <key>body</key><array/>
            </dict></plist>
            """
        var header = Message.Header(
            deviceID: "8914800000123456789", service: "sync", userID: "ann@example.com", sequence: 1)
        header.isFinal = true
        let message = Message(header: header)
        #expect(try Message(parsing: text.utf8) == message)
        for form in PropertyList.Form.allCases {
            #expect(try Message(parsing: message.encoded(as: form)) == message)
        }
    }

    @Test func everythingComesBack() throws {
        var header = Message.Header(deviceID: "d", service: "s", userID: "u", sequence: 3)
        header.phoneNumber = "+49"
        header.failure = Status(.serviceBusy, "later")
        let command = Command.changes(uri: "com.apple.Contacts", Changes(.changes, ["1": ["op": "delete"]]))
        let response = MessageItem("sync-start", 1, ["uri": "a"]).response([Status(.ok)])
        let message = Message(header: header, body: [response, command.item(4, hasMore: true), command.item(5)])
        for form in PropertyList.Form.allCases {
            #expect(try Message(parsing: message.encoded(as: form)) == message)
        }
    }

    @Test func aResultOfOKIsNone() throws {
        var members = Self.header
        members["result"] = ["code": 200]
        members["unknown"] = 1
        #expect(try Message(["header": .dictionary(members), "body": []]).header.failure == nil)
    }

    @Test(arguments: ["version", "deviceid", "service", "userid", "sequence"]) func required(key: String) {
        for value: PropertyList? in [nil, "", true, []] {
            var members = Self.header
            members[key] = value
            let error = Self.error(members)
            #expect(error?.place == "/header/\(key)" && error?.code == .badRequest, "\(String(describing: value))")
        }
    }

    @Test func headers() {
        for (key, value, code) in [
            ("version", "2.0", .versionNotSupported), ("sequence", 0, .badRequest), ("final", false, .badRequest),
            ("final", 1, .badRequest), ("msisdn", 49, .badRequest), ("sequence", "1", .badRequest),
        ] as [(String, PropertyList, StatusCode)] {
            var members = Self.header
            members[key] = value
            #expect(Self.error(members)?.code == code && Self.error(members)?.place == "/header/\(key)", "\(key)")
        }
    }

    @Test(
        arguments: [
            ("/body", [:]), ("/body/0", [1]), ("/body/0/name", [["sequence": 1, "params": [:]]]),
            ("/body/0/sequence", [["name": "get", "params": [:]]]),
            ("/body/0/params", [["name": "get", "sequence": 1]]),
            ("/body/0/sequence", [["name": "get", "sequence": 0, "params": [:]]]),
            ("/body/0/more", [["name": "get", "sequence": 1, "params": [:], "more": false]]),
            ("/body/0/result", [["name": "get", "sequence": 1, "params": [:], "response": true]]),
            ("/body/0/result", [["name": "get", "sequence": 1, "params": [:], "response": true, "result": []]]),
            (
                "/body/0/result/0/code",
                [["name": "get", "sequence": 1, "params": [:], "response": true, "result": [[:]]]]
            ),
            (
                "/body/1/sequence",
                [["name": "get", "sequence": 2, "params": [:]], ["name": "get", "sequence": 2, "params": [:]]]
            ),
        ] as [(String, PropertyList)])
    func bodies(place: String, body: PropertyList) {
        let error = Self.error(Self.header, body)
        #expect(error?.place == place && error?.code == .badRequest, "\(String(describing: error))")
    }

    @Test func bytesThatAreNoMessage() {
        for (text, code) in [
            ("text", .badRequest), ("<plist><array/></plist>", .badRequest), ("<plist><dict/></plist>", .badRequest),
            ("<plist>" + String(repeating: "<array>", count: 65), .limitExceeded),
            (String(repeating: " ", count: 1 + 4 << 20), .limitExceeded),
        ] as [(String, StatusCode)] {
            #expect { try Message(parsing: text.utf8) } throws: { error in
                guard let error = error as? MessageError else { return false }
                return error.code == code && error.status.description?.isEmpty == false
            }
        }
    }
}
