package import AnabranchCore
package import AnabranchPropertyList

/// The data that a session syncs, at one moment (`Spec/OverTheAirServer.md`, section 3). Any error but a `Status` is a
/// failure of the store, and drops the whole message.
package protocol SessionData {
    /// Opens the exchange of a dataclass.
    /// - Throws: a `Status` if the start is refused; one with `negotiationFailed` with the anchors of `StartRefusal`.
    mutating func start(_ uri: String, _ anchors: Anchors) throws

    /// Takes in the device's ids of records that the server has added.
    /// - Parameter push: the push that they answer, and how much of it had been sent; nil if they are those of an
    ///   earlier session.
    mutating func takeIDs(_ idMap: PropertyListDictionary, of uri: String, from push: (Push, sent: Int)?) throws

    /// True if the device has said what it is.
    func hasDeviceInfo() throws -> Bool

    /// The value of a resource.
    /// - Throws: a `Status` if it does not exist.
    func value(of uri: String) throws -> PropertyList

    /// Sets or erases a resource.
    /// - Throws: a `Status` if that is refused.
    mutating func set(_ value: PropertyList?, of uri: String) throws

    /// Merges what the device has sent, and gives it up, with what the server has, of all dataclasses at once; or, of
    /// those that the device commits, only records it.
    /// - Returns: the outcome of each, in their order.
    mutating func mingle(_ pulls: consuming [Pull]) throws -> [Mingled]

    /// Merges what is recorded, of all dataclasses at once.
    /// - Returns: the items of each that cannot be written.
    mutating func commit(_ uris: [String]) throws -> [[ExactString: Status]]

    /// Forgets what is recorded of a dataclass, because it is cancelled.
    mutating func forget(_ uri: String) throws

    /// The anchor that names the state of a device that has the first items of a push, or all of them with nil; nil if
    /// there is no anchor at that place.
    mutating func anchor(of push: Push, after count: Int?, _ uri: String) throws -> String?

    /// Gives the changes that were mingled last another name.
    mutating func rename(_ uri: String, to name: String) throws
}

/// The refusal of a start, with the anchors that say how it may come again.
package struct StartRefusal: Error, Sendable {
    package var anchors: Anchors
    package var reason: String

    package init(_ anchors: Anchors, _ reason: String) { (self.anchors, self.reason) = (anchors, reason) }
}

/// The changes that a device has sent of a dataclass.
package struct Pull: Sendable {
    package struct Command: Sendable {
        package var sequence: Int
        package var changes: Changes

        package init(sequence: Int, changes: Changes) { (self.sequence, self.changes) = (sequence, changes) }
    }

    package var uri: String
    /// Those of the accepted start.
    package var anchors: Anchors
    package var commands: [Command] = []

    package init(uri: String, anchors: Anchors) { (self.uri, self.anchors) = (uri, anchors) }

    package var mode: Anchors.Mode { anchors.mode ?? .fast }
    package var direction: Anchors.Direction { anchors.direction ?? .both }
}

/// The outcome of a mingle for a dataclass.
package struct Mingled: Sendable {
    /// The failures by the ids of the items.
    package var failures: [ExactString: Status] = [:]
    package var push: Push
    /// True if the changes are only recorded, until the device commits them.
    package var waitsForCommit: Bool

    package init(failures: [ExactString: Status] = [:], push: Push, waitsForCommit: Bool = false) {
        (self.failures, self.push, self.waitsForCommit) = (failures, push, waitsForCommit)
    }
}

/// The items that the server sends of a dataclass.
package struct Push: Sendable {
    package struct Item: Sendable {
        package var id: String
        package var value: PropertyList
        /// About how long it is in a message, in bytes.
        package var byteCount: Int
        /// The entity and the key, by which a push that was cut off is resumed.
        package var place: [UInt8]

        package init(id: String, value: PropertyList, byteCount: Int, place: [UInt8]) {
            (self.id, self.value, self.byteCount, self.place) = (id, value, byteCount, place)
        }
    }

    package var itemType: Changes.ItemType
    package var items: [Item]
    /// True if no item refers to one after it, so that the items may come in several messages; false if they fit one.
    package var isSplit: Bool
    /// True if there may be checkpoints between messages.
    package var hasCheckpoints: Bool
    /// The most items and bytes of items of a message that the device takes. A single item may be longer.
    package var itemsMax = Int.max, bytesMax = Int.max
    /// The words of `SessionData` about it.
    package var context: PropertyListDictionary

    package init(
        _ itemType: Changes.ItemType, _ items: [Item], isSplit: Bool, hasCheckpoints: Bool,
        context: PropertyListDictionary
    ) {
        (self.itemType, self.items, self.isSplit) = (itemType, items, isSplit)
        (self.hasCheckpoints, self.context) = (hasCheckpoints, context)
    }
}
