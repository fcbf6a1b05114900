import AnabranchCore
package import AnabranchOverTheAir

/// The dataclasses of an app that devices sync.
package struct OverTheAirApp: Equatable, Sendable {
    /// The path of the URL, as `/ota`.
    package var url: String
    /// The beginning of the partitions with the records of the users, without the `/`. Devices may share them with
    /// clients of another wire.
    package var folder: String
    package var dataclasses: [Dataclass]

    package static let usualFolder = "ota"

    package init(url: String, folder: String = usualFolder, dataclasses: [Dataclass]) {
        (self.url, self.folder, self.dataclasses) = (url, folder, dataclasses)
    }

    /// The partition with the records of a user.
    func partition(of user: String) -> PartitionValue { .string("\(folder)/\(user)") }
}

/// The bounds of the property-list wire (`Spec/OverTheAirServer.md`, section 8).
package struct OverTheAirSettings: Sendable {
    /// The apps that are served, by their ids.
    package var apps: [String: OverTheAirApp] = [:]
    package var door = DoorLimits()
    package var session = SessionLimits()
    /// The id of the server in its messages.
    package var serverID = "anabranch"
    /// How long a session waits for the device, in seconds.
    package var sessionSeconds: UInt64 = 600
    /// How many sessions there may be.
    package var sessionsMax = 10_000
    /// How many sessions of one user there may be: the others are for others.
    package var sessionsPerUserMax = 200
    /// How many bytes sessions may keep before no new one begins.
    package var sessionBytesMax = 256 << 20
    /// The longest message of a device, in bytes.
    package var messageBytesMax = 4 << 20
    /// How many items of a session may be found too large before it ends.
    package var tooLargeMax = 16
    /// Gives freed memory back to the system. It is called when a long message is merged: its commit is made on another
    /// thread, which would not find that memory.
    package var giveBackMemory: @Sendable () -> Void = {}

    package init() {}
}
