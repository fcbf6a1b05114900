import AnabranchCore
import AnabranchOverTheAir
import AnabranchPropertyList
import Testing

@Suite struct DeviceExchangeTests {
    /// A device that has nothing to send, and keeps nothing.
    private struct EmptyDevice: DeviceData {
        func information() -> (value: PropertyList, isTold: Bool) { ([:], true) }
        func markInformationTold() {}
        func named(_ uri: String) -> NamedChanges { NamedChanges(anchors: Anchors(), count: 0, idMap: [:]) }

        func slice(
            of uri: String, from ordinal: Int, itemsMax: Int, bytesMax: Int
        ) -> (items: Changes, next: Int) { (Changes(), 0) }

        func renegotiate(_ uri: String, _ wanted: Anchors) {}
        func newIDs(for items: Changes, of uri: String, _ received: Received) -> PropertyListDictionary { [:] }
        func take(_ received: Received, _ anchors: Anchors, of uri: String) {}
        func markIDsKnown(_ uri: String) {}
    }

    /// - Returns: the error that ends the session after some messages with changes, with a checkpoint in each or none.
    private static func end(messages: Int, hasCheckpoints: Bool) throws -> Status? {
        var limits = DeviceLimits()
        limits.receivedBytesMax = 100_000
        var data: any DeviceData = EmptyDevice()
        var device = DeviceExchange(deviceID: "d", service: "sync", userID: "u", uris: ["a"], limits: limits)
        for number in 1...messages {
            let made = try device.message(&data), message = try #require(made)
            let text = PropertyList.string(String(repeating: "x", count: 30_000))
            var changes = Changes(.changes, ["k": ["op": "add", "entity": "e", "set": ["t": text]]])
            if hasCheckpoints {
                var anchors = Anchors()
                anchors.nextServerAnchor = "\(number)"
                changes.anchors = anchors
            }
            let answers = message.body.filter { !$0.isResponse }.map { $0.response([Status(.ok)]) }
            let command = Command.changes(uri: "a", changes).item(number, hasMore: true)
            let answer = Message(header: message.header, body: answers + [command])
            do { try device.take(answer, &data) } catch let error as DeviceExchange.EndedError { return error.status }
        }
        return nil
    }

    @Test func whatComesBeforeACheckpointIsBounded() throws {
        #expect(try Self.end(messages: 10, hasCheckpoints: true) == nil)
        #expect(try Self.end(messages: 2, hasCheckpoints: false) == nil)
        let status = try Self.end(messages: 4, hasCheckpoints: false)
        #expect(status?.description?.contains("without a checkpoint") == true)
    }
}
