import AnabranchCore
import AnabranchHistory
import AnabranchSimulation
import AnabranchTesting

/// Runs the checks of vector lines and counts them.
struct VectorCheck {
    private var codec: Tally
    private var merge: Tally
    private var outcomes: Tally
    private var outcomeCheck = OutcomeCheck()
    private var log: Tally
    private var state: Tally
    private var views: Tally

    init(report: @escaping (String) -> Void) {
        codec = Tally("codec", report: report)
        merge = Tally("merge", report: report)
        outcomes = Tally("outcomes", report: report)
        log = Tally("log", report: report)
        state = Tally("state", report: report)
        views = Tally("views", report: report)
    }

    var tallies: [Tally] { [codec, merge, outcomes, log, state, views] }
    var passed: Int { tallies.reduce(0) { $0 + $1.passed } }
    var failed: Int { tallies.reduce(0) { $0 + $1.failed } }

    /// The number of instructions whose loss or change a rule explains, in the merges that were checked.
    var explained: String {
        let (discarded, changed) = (outcomeCheck.discarded, outcomeCheck.changed)
        let rules = outcomeCheck.rules.count
        return "\(discarded) instructions discarded and \(changed) changed by \(rules) rules, each explained"
    }

    mutating func run(_ line: VectorLine, at place: String) {
        switch line {
        case .merge(let mergeCase):
            checkCodec(mergeCase, place, isEncodedInput: false)
            checkMerge(mergeCase, place, earlier: [])
        case .scenario(let scenario):
            checkUploads(scenario, place)
            checkMerges(scenario, place)
            checkLog(scenario, place, together: false)
            checkLog(scenario, place, together: true)
            checkStates(scenario, place)
            checkViews(scenario, place)
        }
    }

    // MARK: Codec

    /// Checks that the outputs of a merge have the form that the encoder writes. So have the inputs in a scenario; in a
    /// single merge they are as clients recorded them.
    private mutating func checkCodec(_ mergeCase: MergeCase, _ place: String, isEncodedInput: Bool) {
        for (number, input) in (mergeCase.local + mergeCase.incoming).enumerated() {
            codec.write(
                "\(place), input \(number)",
                reencodingProblem(input.hex, expected: isEncodedInput ? input.hex : nil))
        }
        for (number, output) in ((mergeCase.local_after ?? []) + (mergeCase.incoming_after ?? [])).enumerated() {
            codec.write("\(place), output \(number)", reencodingProblem(output.hex, expected: output.hex))
        }
    }

    /// Checks that an upload, encoded again, is what the server merged.
    private mutating func checkUploads(_ scenario: Scenario, _ place: String) {
        var merged: [UploadKey: String] = [:]
        for record in scenario.merges where record.at == 1 {
            for input in record.incoming {
                merged[UploadKey(client: input.origin, version: ClientVersion(rawValue: input.version))] = input.hex
            }
        }
        for upload in scenario.uploads {
            let version = UploadKey(client: upload.client, version: upload.client_version)
            codec.write(
                "\(place), upload \(upload.client_version) of client \(upload.client)",
                reencodingProblem(upload.hex, expected: merged[version]))
        }
    }

    private struct UploadKey: Hashable {
        var client: ClientFileID
        var version: ClientVersion
    }

    /// Decodes and encodes; without an expectation the result must only be stable.
    private func reencodingProblem(_ hex: String, expected: String?) -> String? {
        guard let bytes = Hex.decode(hex) else { return "not hexadecimal digits" }
        do {
            let once = try reencode(bytes)
            let expected = try expected.map { Hex.decode($0) ?? [] } ?? reencode(once)
            return once == expected ? nil : difference(once, expected)
        } catch {
            return "\(error)"
        }
    }

    private func reencode(_ bytes: [UInt8]) throws(ChangesetError) -> [UInt8] {
        var arena = ChangesetArena()
        let changeset = try arena.decode(bytes, version: 1, tag: OriginTag(timestamp: 0, ident: 0))
        return arena.encodedAnew(changeset)
    }

    private func difference(_ actual: [UInt8], _ expected: [UInt8]) -> String {
        let byte =
            zip(actual, expected).enumerated().first { $1.0 != $1.1 }?.offset ?? min(actual.count, expected.count)
        return "differs at byte \(byte): \(Hex.encode(actual)) instead of \(Hex.encode(expected))"
    }

    // MARK: Merges

    /// Checks the merges of a scenario. Within a message a dirty flag that an earlier merge set stays set, and the
    /// records do not say where a message ends.
    private mutating func checkMerges(_ scenario: Scenario, _ place: String) {
        struct Left {
            var peer: ClientFileID
            var dirty: Set<UInt64>
        }
        var left: [ClientFileID: Left] = [:]
        for (number, record) in scenario.merges.enumerated() {
            let place = "\(place), merge \(number)"
            checkCodec(record, place, isEncodedInput: true)
            let replica = record.at ?? 1
            let peer = replica == 1 ? record.incoming.first?.origin ?? 1 : 1
            let earlier = left[replica].flatMap { $0.peer == peer ? $0.dirty : nil } ?? []
            checkMerge(record, place, earlier: earlier)
            let dirty = zip(record.local, record.local_after ?? []).filter { $1.dirty }.map { $0.0.version }
            left[replica] = Left(peer: peer, dirty: Set(dirty))
        }
    }

    private mutating func checkMerge(_ record: MergeCase, _ place: String, earlier: Set<UInt64>) {
        for strategy in [MergeStrategy.indexed, .everyPair] {
            merge.write("\(place), \(strategy)", mergeProblem(record, strategy, earlier: earlier))
        }
        if record.error == nil { outcomes.write(place, outcomeProblem(record)) }
    }

    /// Every instruction that the merge drops or changes is explained by the rule that did it, and no other is.
    private mutating func outcomeProblem(_ record: MergeCase) -> String? {
        do {
            var input = try MergeInput(record)
            let merged = try outcomeCheck.check { arena in
                arena = input.arena
                return (input.local, input.incoming)
            }
            guard let merged else { return "refused, though the reference merged it" }
            input.arena = merged
            return sideProblem("local", input.outputs(of: input.local), record.local_after ?? [])
                ?? sideProblem("incoming", input.outputs(of: input.incoming), record.incoming_after ?? [])
        } catch {
            return "\(error)"
        }
    }

    private func mergeProblem(_ record: MergeCase, _ strategy: MergeStrategy, earlier: Set<UInt64>) -> String? {
        do {
            var input = try MergeInput(record)
            try input.arena.merge(local: input.local, incoming: input.incoming, strategy: strategy)
            if record.error != nil { return "merged, though the reference refused it" }
            let local = input.outputs(of: input.local)
            let incoming = input.outputs(of: input.incoming)
            let expected = ((record.local_after ?? []), (record.incoming_after ?? []))
            return sideProblem("local", local, expected.0) ?? sideProblem("incoming", incoming, expected.1)
                ?? flagProblem(local + incoming, expected.0 + expected.1, record.local.map(\.version), earlier)
        } catch let error as TransformError {
            return record.error == nil ? error.description : nil
        } catch {
            return "\(error)"
        }
    }

    private func sideProblem(
        _ side: String, _ actual: [MergeCase.Output], _ expected: [MergeCase.Output]
    ) -> String? {
        guard actual.count == expected.count else { return "\(expected.count) \(side) changesets were recorded" }
        for (number, pair) in zip(actual, expected).enumerated() where pair.0.hex != pair.1.hex {
            let words = difference(Hex.decode(pair.0.hex) ?? [], Hex.decode(pair.1.hex) ?? [])
            return "\(side) changeset \(number) \(words)"
        }
        return nil
    }

    private func flagProblem(
        _ actual: [MergeCase.Output], _ expected: [MergeCase.Output], _ local: [UInt64], _ earlier: Set<UInt64>
    ) -> String? {
        let alone = actual.map(\.dirty)
        let joined = alone.enumerated().map { number, dirty in
            dirty || (number < local.count && earlier.contains(local[number]))
        }
        let recorded = expected.map(\.dirty)
        return recorded == alone || recorded == joined ? nil : "dirty flags \(alone) instead of \(recorded)"
    }

    // MARK: Log

    /// Integrates the uploads into an empty history: each as its own message, or consecutive ones of a client in one.
    private mutating func checkLog(_ scenario: Scenario, _ place: String, together: Bool) {
        let place = "\(place), \(together ? "few messages" : "a message an upload")"
        let expected = scenario.server_log
        if scenario.failure == nil, expected.count != scenario.uploads.count {
            log.write(place, "\(expected.count) entries for \(scenario.uploads.count) uploads")
        }
        do {
            let uploads = Array(scenario.uploads.prefix(expected.count))
            // The reference logs what it cannot apply as well.
            let actual = try HistoryReplay.file(with: uploads, together: together, keepsState: false).log()
            for (want, got) in zip(expected, actual) {
                log.write("\(place), version \(want.version)", entryProblem(got, want))
            }
            if actual.count != expected.count { log.write(place, "\(actual.count) versions were made") }
        } catch {
            log.write(place, "\(error)")
        }
    }

    private func entryProblem(_ actual: LogEntry, _ expected: Scenario.LogEntry) -> String? {
        let numbers = (actual.version, actual.origin, actual.clientVersion, actual.timestamp)
        let recorded = (expected.version, expected.origin, expected.client_version, expected.timestamp)
        guard numbers == recorded else { return "\(numbers) instead of \(recorded)" }
        let bytes = Hex.decode(expected.hex) ?? []
        return actual.changeset == bytes ? nil : difference(actual.changeset, bytes)
    }

    // MARK: States

    /// Checks the final state of the server, from its rows and from its log, and that of each client by its own merges.
    private mutating func checkStates(_ scenario: Scenario, _ place: String) {
        guard scenario.failure == nil else { return state.skip("refused by the reference") }
        guard scenario.converged != false else { return state.skip("that the reference left in different states") }
        guard let recorded = scenario.state else { return state.write(place, "no state was recorded") }
        for together in [false, true] {
            let place = "\(place), \(together ? "few messages" : "a message an upload")"
            let replay = Result { try HistoryReplay.file(with: scenario.uploads, together: together, keepsState: true) }
            state.write(place, problem(recorded) { try replay.get().withState { $0 } })
            state.write(
                "\(place), log",
                problem(recorded) {
                    var graph = ObjectGraph()
                    try graph.replay(replay.get().log())
                    return graph
                })
        }
        for client in Set(scenario.uploads.map(\.client)).sorted() {
            state.write(
                "\(place), client \(client)", problem(recorded) { try ClientReplay.state(of: client, in: scenario) })
        }
    }

    // MARK: Views

    /// Checks that a flexible file of which every client sees everything gives the same.
    private mutating func checkViews(_ scenario: Scenario, _ place: String) {
        guard scenario.failure == nil else { return views.skip("refused by the reference") }
        do {
            let uploads = try scenario.uploads.map { (client: $0.client, changeset: try $0.changeset) }
            let file = try HistoryReplay.file(with: scenario.uploads, together: false, keepsState: true)
            let state = try file.withState { $0 }
            guard try uploads.allSatisfy({ try FullViewReplay.isComparable($0.changeset.changeset, in: state) }) else {
                return views.skip("with erasures, without primary keys or asymmetric")
            }
            views.write(place, try FullViewReplay.difference(from: file, of: uploads))
        } catch {
            views.write(place, "\(error)")
        }
    }

    private func problem(_ recorded: [UInt8], _ state: () throws -> ObjectGraph) -> String? {
        do {
            let text = try state().canonicalJSON()
            guard text != recorded else { return nil }
            return "\(String(decoding: text, as: UTF8.self)) instead of \(String(decoding: recorded, as: UTF8.self))"
        } catch {
            return "\(error)"
        }
    }
}
