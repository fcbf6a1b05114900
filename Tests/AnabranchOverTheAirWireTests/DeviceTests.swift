import AnabranchClient
import AnabranchOverTheAir
import AnabranchPropertyList
import Foundation
import Synchronization
import Testing

@testable import AnabranchOverTheAirDevice
@testable import AnabranchOverTheAirWire

/// Devices of the library, with their stores in files, over HTTP with a server (`Spec/OverTheAirDevice.md`).
@Suite(.timeLimit(.minutes(30))) struct DeviceTests {
    private static let uri = DeviceRig.contacts

    /// A device with a file of its own.
    struct Phone {
        let device: PropertyListDevice
        let service: PropertyListService

        init(_ rig: DeviceRig, _ folder: URL, _ name: String, _ options: DeviceOptions, _ sender: any HTTPSender)
            async throws
        {
            let dataclasses = try DeviceRig.dataclasses().map { dataclass in
                DeviceDataclass(
                    uri: dataclass.uri,
                    entities: dataclass.entities.map { entity in
                        .init(
                            name: entity.name, fields: entity.fields.keys.sorted(),
                            relationships: entity.relationships.keys.sorted())
                    })
            }
            device = try PropertyListDevice(
                store: folder.appending(path: "\(name).sqlite").path(), dataclasses: dataclasses, options: options)
            service = PropertyListService(
                url: "http://127.0.0.1:\(rig.port)/ota", userID: rig.user, token: try await rig.token(),
                sender: sender)
        }

        @discardableResult
        func sync() async throws -> DeviceReport {
            let report = try await device.sync(with: service)
            for outcome in report.outcomes { #expect(outcome.failure == nil) }
            return report
        }

        /// The records by their names, with names in place of ids.
        func content() throws -> [String: PropertyListDictionary] {
            let records = try device.records(of: DeviceTests.uri)
            var names: [String: PropertyList] = [:]
            for record in records { names[record.id] = record.fields["name"] ?? "?" }
            var content: [String: PropertyListDictionary] = [:]
            for record in records {
                var fields = record.fields
                if let groups = fields["groups"]?.array {
                    fields["groups"] = .array(groups.map { names[$0.string ?? ""] ?? "lost" })
                }
                let name = record.fields["name"]?.string ?? record.id
                #expect(content[name] == nil, "\(name) is there twice")
                content[name] = fields
            }
            return content
        }

        func id(_ name: String) throws -> String {
            let record = try device.records(of: DeviceTests.uri).first { $0.fields["name"] == .string(name) }
            return try #require(record).id
        }
    }

    /// Cuts the connection at a message: before it is sent, at odd numbers, or before its answer is there.
    final class Cutter: HTTPSender {
        let cutAt: Int?
        private let sender = NIOHTTPSender()
        private let count = Mutex(0)

        init(cutAt: Int? = nil) { self.cutAt = cutAt }

        var messages: Int { count.withLock { $0 } }

        func send(_ request: HTTPCall) async throws -> HTTPAnswer {
            let number = count.withLock { count in
                count += 1
                return count
            }
            if let cutAt, 2 * number > cutAt + 1 || 2 * number - 1 == cutAt { throw AppError(.noAnswer, "cut") }
            let answer = try await sender.send(request)
            if 2 * number == cutAt { throw AppError(.noAnswer, "cut") }
            return answer
        }
    }

    private static func options(_ form: DeviceOptions.Form, maps: Bool, itemsMax: Int? = nil) -> DeviceOptions {
        var options = DeviceOptions()
        (options.form, options.mapsIDs, options.itemsMax) = (form, maps, itemsMax)
        options.isBinary = maps
        return options
    }

    private static func run(commit: String = "server", _ body: (DeviceRig, URL) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "ota-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let dataclasses = try DeviceRig.dataclasses(commit: commit)
        try await DeviceRig.run {
            $0.apps[DeviceRig.app]?.dataclasses = dataclasses
        } _: { rig in
            try await body(rig, folder)
        }
    }

    /// Two devices with records; the second one has edits and does not know those of the first.
    private static func twoPhones(
        _ rig: DeviceRig, _ folder: URL, _ options: DeviceOptions, _ sender: any HTTPSender, isFirst: Bool
    ) async throws -> (Phone, Phone) {
        let one = try await Phone(rig, folder, "one", Self.options(.changes, maps: true), NIOHTTPSender())
        let two = try await Phone(rig, folder, "two", options, isFirst ? sender : NIOHTTPSender())
        var edits: [PropertyListDevice.Edit] = (0..<3).map {
            .add(id: "g\($0)", entity: "group", fields: ["name": .string("group \($0)")])
        }
        for number in 0..<6 {
            let fields: PropertyListDictionary = [
                "name": .string("person \(number)"), "groups": [.string("g\(number % 3)")],
            ]
            edits.append(.add(id: "p\(number)", entity: "contact", fields: fields))
        }
        try one.device.edit(edits, of: uri)
        try await one.sync()
        if isFirst {
            try two.device.edit([.add(id: nil, entity: "contact", fields: ["name": "of two"])], of: uri)
            return (one, two)
        }
        try await two.sync()
        #expect(try two.content() == one.content())
        try one.device.edit(
            (0..<5).map { .modify(id: "p\($0)", set: ["email": .string("\($0)@b.c")], clear: []) } + [
                .delete(id: "p5"), .modify(id: "g0", set: ["name": "renamed"], clear: []),
                .add(id: "new", entity: "contact", fields: ["name": "new", "groups": ["g0", "g1", "g2"]]),
            ], of: uri)
        try await one.sync()
        try two.device.edit(
            [
                .modify(id: two.id("person 0"), set: ["company": "c"], clear: []),
                .modify(id: two.id("person 1"), set: ["groups": [.string(try two.id("group 2"))]], clear: []),
                .modify(id: two.id("person 5"), set: ["company": "in vain"], clear: []),
                .delete(id: two.id("person 2")),
                .add(
                    id: nil, entity: "contact",
                    fields: ["name": "of two", "groups": [.string(try two.id("group 1"))]]),
            ], of: uri)
        return (one, try await Phone(rig, folder, "two", options, sender))
    }

    /// The final records of both.
    private static func ends(_ one: Phone, _ two: Phone, _ rig: DeviceRig) async throws
        -> [String: PropertyListDictionary]
    {
        let again = Phone(
            two.device,
            try await PropertyListService(
                url: "http://127.0.0.1:\(rig.port)/ota", userID: rig.user, token: rig.token()))
        for phone in [one, again, one, again] { try await phone.sync() }
        for phone in [one, again] { #expect(try phone.device.pendingCount(of: uri) == 0) }
        let content = try one.content()
        #expect(try again.content() == content)
        return content
    }

    /// A session is cut before and after each message; `ANABRANCH_CUTS=all` cuts at all places, otherwise some are.
    @Test(
        arguments: [DeviceOptions.Form.records, .changes].flatMap { form in
            [true, false].flatMap { maps in
                [(true, "server"), (false, "server"), (false, "device")].map { (form, maps, $0, $1) }
            }
        })
    func everyCutLeadsToTheSame(form: DeviceOptions.Form, maps: Bool, isFirst: Bool, commit: String) async throws {
        let options = Self.options(form, maps: maps, itemsMax: 3)
        var expected: [String: PropertyListDictionary] = [:], messages = 0
        try await Self.run(commit: commit) { rig, folder in
            let sender = Cutter()
            let (one, two) = try await Self.twoPhones(rig, folder, options, sender, isFirst: isFirst)
            try await two.sync()
            messages = sender.messages
            expected = try await Self.ends(one, two, rig)
        }
        #expect(messages > 3 && expected.count == (isFirst ? 10 : 9))
        let isWhole = ProcessInfo.processInfo.environment["ANABRANCH_CUTS"] == "all"
        for cut in stride(from: isWhole ? 1 : 2, through: 2 * messages, by: isWhole ? 1 : 9) {
            try await Self.run(commit: commit) { rig, folder in
                let (one, two) = try await Self.twoPhones(
                    rig, folder, options, Cutter(cutAt: cut), isFirst: isFirst)
                await #expect(throws: DeviceError.self) { try await two.sync() }
                #expect(try await Self.ends(one, two, rig) == expected, "cut at \(cut)")
            }
        }
    }

    @Test func whatIsEditedDuringASessionStays() async throws {
        try await Self.run { rig, folder in
            let (one, two) = try await Self.twoPhones(
                rig, folder, Self.options(.changes, maps: true, itemsMax: 2), NIOHTTPSender(), isFirst: false)
            let zero = try two.id("person 0"), four = try two.id("person 4")
            let device = two.device, isDone = Mutex(false)
            _ = try await device.sync(with: two.service) { _, _ in
                guard isDone.withLock({ done in (done, done = true).0 }) == false else { return }
                _ = try? device.edit(
                    [.modify(id: zero, set: ["email": "of two", "number": "7"], clear: []), .delete(id: four)],
                    of: Self.uri)
            }
            #expect(try device.records(of: Self.uri).first { $0.id == zero }?.fields["email"] == "of two")
            let content = try await Self.ends(one, two, rig)
            #expect(content["person 0"]?["email"] == "of two" && content["person 0"]?["number"] == "7")
            #expect(content["person 4"] == nil && content["person 0"]?["company"] == "c")
        }
    }

    @Test func refusedItemsAreToldAndSentAgainOnceEdited() async throws {
        try await Self.run { rig, folder in
            let one = try await Phone(rig, folder, "one", Self.options(.changes, maps: false), NIOHTTPSender())
            try await one.sync()
            try one.device.edit(
                [
                    .add(id: "a", entity: "contact", fields: ["name": "Ann", "number": "twelve"]),
                    .add(id: "b", entity: "contact", fields: ["name": "Bob"]),
                ], of: Self.uri)
            let report = try await one.sync()
            #expect(report.outcomes[0].refused.keys.sorted() == ["a"] && report.outcomes[0].sent == 2)
            #expect(try one.content().keys.sorted() == ["Ann", "Bob"])
            // Of a change that is refused, the record comes back as it is.
            try one.device.edit([.modify(id: "b", set: ["number": "x", "company": "y"], clear: [])], of: Self.uri)
            #expect(try await one.sync().outcomes[0].refused.count == 1)
            #expect(try one.content()["Bob"] == ["name": "Bob"])
            #expect(try await one.sync().outcomes[0].sent == 0)
            try one.device.edit([.modify(id: "a", set: ["number": "12"], clear: [])], of: Self.uri)
            #expect(try await one.sync().outcomes[0].refused.isEmpty)
            let two = try await Phone(rig, folder, "two", Self.options(.records, maps: true), NIOHTTPSender())
            try await two.sync()
            #expect(try two.content() == one.content() && two.content()["Ann"]?["number"] == "12")
        }
    }

    @Test func manyRecordsGoInSeveralMessages() async throws {
        try await Self.run { rig, folder in
            let one = try await Phone(rig, folder, "one", Self.options(.records, maps: true), NIOHTTPSender())
            try one.device.edit(
                (0..<5_000).map {
                    .add(id: nil, entity: "contact", fields: ["name": .string("\($0)"), "number": .string("\($0)")])
                }, of: Self.uri)
            let report = try await one.sync()
            #expect(report.outcomes[0].sent == 5_000 && report.messages > 2)
            let habits = Self.options(.changes, maps: true, itemsMax: 700)
            let two = try await Phone(rig, folder, "two", habits, NIOHTTPSender())
            #expect(try await two.sync().outcomes[0].received == 5_000)
            #expect(try two.content() == one.content())
        }
    }

    /// One record has links to all that are erased, and is not written again for each of them.
    @Test(.timeLimit(.minutes(30))) func manyLinksGoWithWhatTheyLeadTo() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "ota-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let dataclass = DeviceDataclass(
            uri: "c",
            entities: [
                .init(name: "group", fields: ["name"]), .init(name: "person", fields: [], relationships: ["groups"]),
            ])
        let device = try PropertyListDevice(store: folder.appending(path: "store").path(), dataclasses: [dataclass])
        let ids = (0..<20_000).map { "g\($0)" }
        try device.edit(
            ids.map { .add(id: $0, entity: "group", fields: ["name": .string($0)]) } + [
                .add(id: "p", entity: "person", fields: ["groups": .array(ids.map { .string($0) })])
            ], of: "c")
        let store = try DeviceStore(
            path: folder.appending(path: "store").path(), dataclasses: nil, options: nil)
        var received = Received(name: "none")
        let gone = ids.dropFirst().map { ($0, Changes.propertyList(.delete(entity: "group"))) }
        received.chunks = [Changes(.changes, PropertyListDictionary(gone) { $1 })]
        try SessionStore(store).take(received, Anchors(), of: "c")
        let records = try device.records(of: "c")
        #expect(records.map(\.id) == ["g0", "p"] && records.last?.fields["groups"] == ["g0"])
    }

    @Test func whatCannotBe() async throws {
        try await Self.run { rig, folder in
            let one = try await Phone(rig, folder, "one", DeviceOptions(), NIOHTTPSender())
            let wrong: [[PropertyListDevice.Edit]] = [
                [.add(id: nil, entity: "planet", fields: [:])], [.modify(id: "x", set: [:], clear: [])],
                [.add(id: nil, entity: "contact", fields: ["planet": "x"])], [.delete(id: "x")],
                [.add(id: nil, entity: "contact", fields: ["groups": "x"])],
                [.add(id: nil, entity: "contact", fields: ["weight": .real(.nan)])],
                [.add(id: "a", entity: "contact", fields: [:]), .add(id: "a", entity: "contact", fields: [:])],
            ]
            for edits in wrong {
                let error = #expect(throws: DeviceError.self) { try one.device.edit(edits, of: Self.uri) }
                #expect(error?.code == .badChange)
            }
            #expect(try one.device.records(of: Self.uri).isEmpty)
            let file = folder.appending(path: "other.sqlite").path()
            try Data("no database".utf8).write(to: URL(filePath: file))
            #expect(throws: DeviceError.self) { try PropertyListDevice(store: file) }
            let nobody = PropertyListService(
                url: "http://127.0.0.1:\(rig.port)/ota", userID: rig.user, token: "x")
            let refusal = await #expect(throws: DeviceError.self) { try await one.device.sync(with: nobody) }
            #expect(refusal?.code == .unauthorized)
            let nowhere = PropertyListService(url: "http://127.0.0.1:1/ota", userID: rig.user, token: "x")
            let silence = await #expect(throws: DeviceError.self) { try await one.device.sync(with: nowhere) }
            #expect(silence?.code == .offline)
            // A store of the device that was opened by another session meanwhile.
            let device = one.device, service = one.service
            let error = await #expect(throws: DeviceError.self) {
                try await device.sync(
                    with: PropertyListService(
                        url: "http://127.0.0.1:\(rig.port)/ota", userID: rig.user, token: try await rig.token(),
                        sender: Intruder(device, service)))
            }
            #expect(error?.code == .superseded)
            try await one.sync()
        }
    }

    /// The other session brings everything to the server, and the first one has nothing left to send.
    @Test func aSessionWhoseChangesAreGoneEnds() async throws {
        try await Self.run { rig, folder in
            let one = try await Phone(rig, folder, "one", Self.options(.changes, maps: false), NIOHTTPSender())
            try await one.sync()
            try one.device.edit(
                (0..<5_000).map { .add(id: nil, entity: "contact", fields: ["name": .string("\($0)")]) }, of: Self.uri)
            let token = try await rig.token(), device = one.device
            let slow = PropertyListService(
                url: "http://127.0.0.1:\(rig.port)/ota", userID: rig.user, token: token,
                sender: LateIntruder(device, one.service))
            let error = await #expect(throws: DeviceError.self) { try await device.sync(with: slow) }
            #expect(error?.code == .superseded)
            #expect(try one.device.pendingCount(of: Self.uri) == 0)
            let two = try await Phone(rig, folder, "two", Self.options(.changes, maps: true), NIOHTTPSender())
            #expect(try await two.sync().outcomes[0].received == 5_000)
        }
    }

    /// Has another session of the same store run when the first answer has come.
    private final class LateIntruder: HTTPSender {
        private let device: PropertyListDevice
        private let service: PropertyListService
        private let isFirst = Mutex(true)

        init(_ device: PropertyListDevice, _ service: PropertyListService) {
            (self.device, self.service) = (device, service)
        }

        func send(_ request: HTTPCall) async throws -> HTTPAnswer {
            let answer = try await NIOHTTPSender().send(request)
            let isFirst = isFirst.withLock { first in
                defer { first = false }
                return first
            }
            if isFirst { _ = try await device.sync(with: service) }
            return answer
        }
    }

    /// Has another session of the same store run before the first message is sent.
    private struct Intruder: HTTPSender {
        let device: PropertyListDevice
        let service: PropertyListService

        init(_ device: PropertyListDevice, _ service: PropertyListService) {
            (self.device, self.service) = (device, service)
        }

        func send(_ request: HTTPCall) async throws -> HTTPAnswer {
            _ = try await device.sync(with: service)
            return try await NIOHTTPSender().send(request)
        }
    }
}

extension DeviceTests.Phone {
    fileprivate init(_ device: PropertyListDevice, _ service: PropertyListService) {
        (self.device, self.service) = (device, service)
    }
}
