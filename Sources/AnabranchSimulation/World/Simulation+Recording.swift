import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchProtocol
import AnabranchReplica
import AnabranchServer
import AnabranchTesting

// The recording of a world. It has no effect on the world.

extension Simulation {
    /// Runs a world and records it, whether or not it keeps its promises.
    /// - Parameter faults: as for `init`.
    /// - Returns: the recording, and the failure if there is one.
    package static func recording(
        of seed: UInt64, faults: Set<SimulationPlan.Fault>? = nil
    ) throws -> (bytes: [UInt8], failure: String?) {
        let simulation = try Simulation(seed: seed, faults: faults)
        simulation.beginRecording(seed, faults)
        var failure: String?
        do { try simulation.run() } catch { failure = "\(error)" }
        return (simulation.endRecording(failure), failure)
    }

    private func beginRecording(_ seed: UInt64, _ faults: Set<SimulationPlan.Fault>?) {
        let names = faults.map { Recording.array($0.map(\.rawValue).sorted().map(JSONText.quoted)) } ?? "null"
        let clients = clients.map { client in
            let dialect = JSONText.quoted(client.dialect.hasTokensOfIssuers ? client.dialect.name : "realm")
            return #"{"client":\#(client.number),"file":\#(client.file),"sdk":\#(dialect)}"#
        }
        let paths = (0..<plan.fileCount).map { JSONText.quoted("\(path(of: $0))") }
        var recording = Recording()
        recording.begin(
            #"{"world":1,"seed":"\#(seed)","faults":\#(names),"plan":\#(JSONText.quoted("\(plan)")),"#
                + #""start":\#(SimulatedClock.start * 1000),"files":\#(Recording.array(paths)),"#
                + #""clients":\#(Recording.array(clients))}"#)
        self.recording = recording
    }

    private func endRecording(_ failure: String?) -> [UInt8] {
        let marks = tally.marks.sorted { $0.key < $1.key }.map { "\(JSONText.quoted($0.key)):\($0.value)" }
        let end =
            #"{"passed":\#(failure == nil),"failure":\#(failure.map(Recording.text) ?? "null"),"#
            + #""events":\#(recording?.eventCount ?? 0),"trace":"\#(String(trace.value, radix: 16))","#
            + #""marks":{\#(marks.joined(separator: ","))}}"#
        return recording?.ended(end) ?? []
    }

    // MARK: Events

    func record(_ name: StaticString, _ parts: @autoclosure () -> [String] = []) {
        guard recording != nil else { return }
        recording?.add(name, parts(), at: clock.now)
    }

    func record(_ name: StaticString, _ client: SimulatedClient, _ parts: @autoclosure () -> [String] = []) {
        record(name, ["\(client.number)"] + parts())
    }

    /// Records a message that begins its way, or one that has arrived.
    func record(message name: StaticString, _ client: SimulatedClient, _ bytes: [UInt8]? = nil) {
        guard recording?.recordsMessages == true else { return }
        guard let bytes else { return record(name, client) }
        let word = bytes.prefix { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\n") }.prefix(20)
        record(name, client, [JSONText.quoted(String(decoding: word, as: UTF8.self)), "\(bytes.count)"])
    }

    /// Counts something that has happened, and records it.
    func mark(_ what: String, _ client: SimulatedClient? = nil) {
        tally.mark(what)
        record("happens", [JSONText.quoted(what)] + (client.map { ["\($0.number)"] } ?? []))
    }

    /// Records the progress of a client: the server version that it has, and how many of its own changes are not
    /// acknowledged yet.
    func recordPlace(of client: SimulatedClient) {
        guard recording != nil, let process = client.process, process.old == nil else { return }
        let replica = process.replica
        let place = [
            "\(client.number)", "\(replica.progress.cursor.serverVersion)", "\(replica.unacknowledged.changesets)",
        ]
        guard recordedPlaces[client.number] != place else { return }
        recordedPlaces[client.number] = place
        record("place", place)
    }

    /// Records the versions of a commit, with the effects of merging.
    func record(_ commit: Commit, of file: Int) {
        guard recording != nil else { return }
        for entry in commit.entries {
            let isMerged = commit.received.contains { $0.version == entry.version }
            record(
                "version",
                [
                    "\(file)", "\(entry.version)", author(of: entry, in: file), entry.base.map { "\($0)" } ?? "null",
                    "\(entry.changeset.count)", isMerged ? effects(of: entry.version, in: commit.file) : "null",
                ])
        }
        if commit.sealed != nil { record("seal", ["\(file)"]) }
        if let trim = commit.trim { record("trim", ["\(file)", "\(trim.version)"]) }
        if commit.generation != nil { record("generation", ["\(file)"]) }
    }

    /// The number of the client that has made an entry; -1 for the server, null for a client that has started over
    /// since.
    private func author(of entry: LogEntry, in file: Int) -> String {
        guard entry.origin != 0 else { return "-1" }
        let client = clients.first { client in
            guard client.file == file, let process = client.process else { return false }
            return [process.replica.ident, process.old?.replica.ident].contains(entry.origin)
        }
        return client.map { "\($0.number)" } ?? "null"
    }

    /// The most effects of a merge that are recorded.
    private static let effectsMax = 3

    /// The changes that merging has made to a version, with the reasons.
    private func effects(of version: ServerVersion, in file: SyncedFileID) -> String {
        let found = try? content.read(file) { view throws(HistoryError) in try view.explanation(of: version) }
        guard let found else { return #"{"lost":null,"effects":[]}"# }
        let affected = found.effects.filter { $0.own.isAffected || $0.other.isAffected }
        let effects = affected.prefix(Self.effectsMax).map { effect in
            let after = effect.own.after.map { Recording.text($0.text) } ?? "null"
            return #"{"rule":"\#(effect.rule.rawValue)","sentence":\#(JSONText.quoted(effect.rule.sentence)),"#
                + #""before":\#(Recording.text(effect.own.before.text)),"after":\#(after),"#
                + #""met":\#(Recording.text(effect.other.before.text)),"of":\#(effect.author.version)}"#
        }
        let lost = found.instructions.count { $0.logged == nil }
        return #"{"lost":\#(lost),"more":\#(affected.count - effects.count),"effects":\#(Recording.array(effects))}"#
    }
}
