package import AnabranchCore
package import AnabranchPropertyList

/// The store of a device, as a session uses it (`Spec/OverTheAirDevice.md`, section 2). Each call is done as a whole or
/// not at all.
package protocol DeviceData {
    /// The information about the device; `isTold` if the server has it already.
    mutating func information() throws -> (value: PropertyList, isTold: Bool)

    /// Records that the server has the information about the device.
    mutating func markInformationTold() throws

    /// The named changes that wait for an answer. If there are none, the edits since then get a name.
    mutating func named(_ uri: String) throws -> NamedChanges

    /// A slice of the items under the name, all of one type.
    mutating func slice(
        of uri: String, from ordinal: Int, itemsMax: Int, bytesMax: Int
    ) throws -> (items: Changes, next: Int)

    /// Handles the server's refusal of a start: the rejected changes get another name, for the mode that the server
    /// wants.
    mutating func renegotiate(_ uri: String, _ wanted: Anchors) throws

    /// New ids of the device for records that the server sends.
    mutating func newIDs(for items: Changes, of uri: String, _ received: Received) throws -> PropertyListDictionary

    /// Takes in all that has come up to a checkpoint.
    mutating func take(_ received: Received, _ anchors: Anchors, of uri: String) throws

    /// Records that the server has the ids of an earlier session, or of this one.
    mutating func markIDsKnown(_ uri: String) throws
}

/// The changes of a dataclass that are sent under a name until they are answered.
package struct NamedChanges: Sendable {
    /// The name, the one that was accepted before, the server's anchor, the mode.
    package var anchors: Anchors
    /// The number of items.
    package var count: Int
    /// The ids of records that the server has added in an earlier session, and may not have.
    package var idMap: PropertyListDictionary

    package init(anchors: Anchors, count: Int, idMap: PropertyListDictionary) {
        (self.anchors, self.count, self.idMap) = (anchors, count, idMap)
    }

    package var mode: Anchors.Mode { anchors.mode ?? .fast }
}

/// The part of a session that has come from the server since the last checkpoint.
package struct Received: Sendable {
    /// The name of the device's changes.
    package var name: String
    /// True once the server has answered them.
    package var isAnswered = false
    /// The items among them that the server has refused.
    package var failures: [ExactString: Status] = [:]
    /// The server's changes, message by message.
    package var chunks: [Changes] = []
    /// The ids that the device has given, by those of the server.
    package var idMap: PropertyListDictionary = [:]

    package init(name: String) { self.name = name }
}
