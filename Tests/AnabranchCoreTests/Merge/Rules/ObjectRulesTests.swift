import AnabranchTesting
import Testing

@testable import AnabranchCore

/// `Spec/Transform.md`, section 7.2: R4 and R5.
@Suite struct ObjectRulesTests {
    @Test func eraseObjectVersusCreateObject() throws {
        for age in [Age.majorOlder, .minorOlder, .equal] {
            try expectMergeBothWays([.eraseObject()], [.createObject()], age, becomes: [.eraseObject()], [])
        }
        try expectNothing([.eraseObject()], [.createObject(ObjectName(key: .int(2)))])
    }

    @Test func eraseObjectVersusEraseObject() throws {
        try expectMerge([.eraseObject()], [.eraseObject()], .majorOlder, becomes: [], [.eraseObject()])
        try expectMerge([.eraseObject()], [.eraseObject()], .minorOlder, becomes: [.eraseObject()], [])
        try expectMerge([.eraseObject()], [.eraseObject()], .equal, becomes: [], [.eraseObject()])
    }

    @Test func createObjectVersusCreateObject() throws { try expectNothing([.createObject()], [.createObject()]) }

    @Test func newerErasureOutlivesReCreation() throws {
        try expectMerge(
            [.eraseObject(), .createObject()], [.eraseObject()], .majorOlder, becomes: [], [.eraseObject()])
        try expectMerge(
            [.eraseObject(), .createObject()], [.eraseObject()], .minorOlder,
            becomes: [.eraseObject(), .createObject()], [])
    }

    @Test func keysAreOfOneObjectOnlyIfKindAndValueAreEqual() throws {
        let keys: [PrimaryKey] = [
            .null, .int(0), .int(1), .string([]), .string(Array("A".utf8)), .globalKey(GlobalKey(high: 0, low: 0)),
            .globalKey(GlobalKey(high: 0, low: 1)), .objectID(ObjectID(low: 0, high: 0)),
            .objectID(ObjectID(low: 0, high: 1)), .uuid(UUIDBytes(low: 0, high: 0)), .uuid(UUIDBytes(low: 0, high: 1)),
        ]
        for key in keys {
            for other in keys {
                let (erase, create) = (ObjectName(key: key), ObjectName(key: other))
                try expectMergeBothWays(
                    [.eraseObject(erase)], [.createObject(create)], becomes: [.eraseObject(erase)],
                    key == other ? [] : [.createObject(create)])
            }
        }
    }

    /// String keys and class names are numbers of each changeset's own table.
    @Test func namesAreComparedAcrossStringTables() throws {
        let object = ObjectName(className: "A", key: .string(Array("k".utf8)))
        try expectMerge(
            [.eraseTable("Z"), .eraseObject(object)],
            [.createObject(ObjectName(className: "k")), .createObject(object)],
            becomes: [.eraseTable("Z"), .eraseObject(object)], [.createObject(ObjectName(className: "k"))])
    }
}
