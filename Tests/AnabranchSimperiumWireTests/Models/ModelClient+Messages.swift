import AnabranchCore
import AnabranchSimperium

@testable import AnabranchSimperiumWire

/// The client's reactions to messages.
extension ModelClient {
    func take(_ text: Substring) async {
        if text == "cv:?" {
            kept.cv = nil
            isStartingOver = true
            if kind == .ios, !kept.requests.isEmpty { return await startOver() }
            await list()
        } else if text.hasPrefix("i:") {
            await takePage(text.dropFirst(2))
        } else if text.hasPrefix("e:") {
            await takeEntity(String(text.dropFirst(2)))
        } else if !text.hasPrefix("auth:") || text.hasPrefix("auth:{") {
            ledger.fail("\(name) is told \(text)")
        }
    }

    /// iOS has its changes answered first.
    private func startOver() async {
        isCaughtUp = true
        await resend()
    }

    // MARK: Listings

    private func takePage(_ text: Substring) async {
        guard isListing, let page = try? JSONValue(parsing: text.utf8, depthMax: 200) else { return }
        let current = page["current"]?.string ?? ""
        // Another listing has begun.
        if current != listedCV { (listed, fetches) = ([:], [:]) }
        listedCV = current
        for entry in page["index"]?.array ?? [] {
            guard let key = entry["id"]?.string, let version = entry["v"]?.integer else { continue }
            if let body = entry["d"]?.members {
                listed[key] = ghost(key, version, body)
            } else if let ghost = kept.ghosts[key], ghost.version == version {
                listed[key] = ghost
            } else {
                fetches[key] = version
                await say("e:\(key).\(version)")
            }
        }
        if let mark = page["mark"]?.string { return await say(listing(after: mark)) }
        isListing = false
        await endListing()
    }

    private func ghost(_ key: String, _ version: Int64, _ body: EntityBody) -> Ghost {
        ledger.record(body, of: key, version, from: name)
        ghostPorts[key] = port
        return Ghost(version: version, body: body)
    }

    private func endListing() async {
        guard !isListing, fetches.isEmpty else { return }
        for key in kept.ghosts.keys where listed[key] == nil && kept.requests[key] == nil {
            // Of what is gone, node keeps the object.
            if kind != .node || !isStartingOver { kept.copies[key] = nil }
            excused.insert(key)
        }
        for (key, ghost) in listed where kept.requests[key] == nil { kept.copies[key] = ghost.body }
        if kind == .node, isStartingOver { (kept.changed, kept.owedDeletions) = ([], []) }
        isStartingOver = false
        kept.ghosts = listed
        kept.cv = listedCV
        kept.olderCVs = []
        if kind == .ios || kind == .browser { await ask(since: listedCV) }
        let changes = held
        held = []
        for change in changes { await take(change) }
        if !isCaughtUp, kind == .node || kind == .android { await catchUp() }
    }

    private func takeEntity(_ text: String) async {
        let lines = text.split(separator: "\n", maxSplits: 1)
        let name = lines[0].split(separator: "."), key = String(name[0])
        let body = try? JSONValue(parsing: (lines.count > 1 ? lines[1] : "").utf8, depthMax: 200)["data"]?.members
        if let change = gaps.removeValue(forKey: key) {
            if let body, let version = Int64(name[1]) {
                if let old = kept.ghosts[key], old.version > version, ledger.isOfOneServer || ghostPorts[key] == port {
                    ledger.fail("\(self.name) goes back to \(key).\(version) from \(old.version)")
                }
                kept.ghosts[key] = ghost(key, version, body)
                excused.insert(key)
                await takeModification(change, key)
            } else {
                // Without the version that it was made from, the change is dropped.
                ledger.count(.hiddenVersion)
            }
            advance(to: change)
            for change in waiting.removeValue(forKey: key) ?? [] { await take(change) }
            return
        }
        // The version of a listing that has ended since is passed over.
        guard let version = fetches[key], name[1] == "\(version)" else { return }
        fetches[key] = nil
        if let body { listed[key] = ghost(key, version, body) }
        await endListing()
    }

    // MARK: Changes

    /// True if the client takes a change for the answer to its own.
    private func isAnswer(_ change: JSONValue, _ key: String) -> Bool {
        guard let request = kept.requests[key] else { return false }
        let isNamed = change["ccids"]?.array?.contains(.string(request.ident)) ?? false
        guard kind == .ios || kind == .browser else { return isNamed }
        let isOwn = change["clientid"] == .string(name)
        if kind == .browser, isOwn, !isNamed { ledger.count(.anothersAnswer) }
        return isOwn
    }

    func take(_ change: JSONValue) async {
        guard kind != .android || !isListing && fetches.isEmpty else { return held.append(change) }
        guard let key = change["id"]?.string else { return }
        let isOwn = isAnswer(change, key)
        if let code = change["error"]?.integer {
            if isOwn { await takeError(code, key) }
            return
        }
        guard gaps[key] == nil else { return waiting[key, default: []].append(change) }
        if change["o"] == "-" {
            await takeDeletion(change, key, isOwn: isOwn)
        } else {
            await takeModification(change, key)
        }
        advance(to: change)
    }

    /// A change is worked off. While another waits, the client comes back for it after a cut.
    private func advance(to change: JSONValue) {
        guard gaps.isEmpty else { return }
        if let cv = kept.cv { kept.olderCVs = Array((kept.olderCVs + [cv]).suffix(3)) }
        if kept.cv != nil || kind == .node { kept.cv = change["cv"]?.string }
    }

    private func takeDeletion(_ change: JSONValue, _ key: String, isOwn: Bool) async {
        kept.ghosts[key] = nil
        if isOwn { return await acknowledge(key, 0) }
        guard kind == .node, change["clientid"] != .string(name) else {
            if kept.requests[key] == nil { kept.copies[key] = nil }
            return
        }
        // Node answers with a deletion of its own.
        guard let request = kept.requests[key] else {
            kept.copies[key] = nil
            await sendDeletion(key)
            guard deletionsTold[key] == 1, let ident = kept.requests[key]?.ident else { return }
            ledger.echoes.insert(WorldLedger.Request(key: key, ident: ident))
            return
        }
        if change["ccids"] == [] { excused.insert(key) }
        if !request.isDeletion { kept.owedDeletions.insert(key) }
    }

    private func takeModification(_ change: JSONValue, _ key: String) async {
        let source = change["sv"]?.integer, version = change["ev"]?.integer ?? 0, isOwn = isAnswer(change, key)
        guard let json = change["v"], let diff = try? ObjectDiff(parsing: json) else {
            return ledger.fail("\(name) is told no diff: \(change.encoded)")
        }
        let old = kept.ghosts[key]
        guard source == old?.version || source == nil && kind != .node else {
            switch kind {
            case .node:
                gaps[key] = change
                await say("e:\(key).\(source.map { "\($0)" } ?? "undefined")")
            case .android: ledger.fail("\(name) has a gap: \(change.encoded) over \(old?.version ?? 0)")
            case .ios, .browser:
                if isOwn { await acknowledge(key, 0) }
                if kept.cv != nil, !isListing { await list() }
            }
            return
        }
        let base: EntityBody = source == nil ? [:] : old?.body ?? [:]
        guard let body = try? diff.applied(to: base, bytesMax: .max) else {
            return ledger.fail("it does not apply at \(name): \(change.encoded) to \(JSONValue.object(base).encoded)")
        }
        if isOwn, let asked = kept.requests[key]?.source, asked != source { ledger.count(.rebased) }
        moveCopy(of: key, from: base, over: diff, to: body, isOwn: isOwn)
        kept.ghosts[key] = ghost(key, version, body)
        if isOwn { await acknowledge(key, 0) }
    }

    /// Does to the copy what the server has done to the entity.
    private func moveCopy(
        of key: String, from base: EntityBody, over diff: ObjectDiff, to body: EntityBody, isOwn: Bool
    ) {
        let isPending = kept.requests[key] != nil && !isOwn || kept.changed.contains(key)
        guard let copy = kept.copies[key] else {
            if !isPending, !isOwn { kept.copies[key] = body }
            return
        }
        if isOwn {
            // The answer changes nothing at node.
            if kind != .node, !kept.changed.contains(key) { kept.copies[key] = body }
            return
        }
        var ours = ObjectDiff(from: base, to: copy)
        if kind == .node {
            // The rebase ends with the first member that both have changed, and gives nothing if there is none.
            if isPending, diff.isEmpty { excused.insert(key) }
            let common = ours.members.keys.sorted().first { diff.members[$0] != nil }
            ours = ObjectDiff(ours.members.filter { $0.key == common })
        } else if !isPending {
            return kept.copies[key] = body
        }
        let rebased = try? ours.rebased(over: diff, base: base)
        kept.copies[key] = (try? rebased?.applied(to: body, bytesMax: .max)) ?? body
    }

    // MARK: Answers

    private func takeError(_ code: Int64, _ key: String) async {
        switch (kind, code) {
        case (.node, 409), (.node, 412), (.android, 404), (.android, 409), (.android, 412), (.ios, 404), (.ios, 409),
            (.ios, 412), (.browser, 412):
            await acknowledge(key, code)
        // It goes on waiting for its change.
        case (.browser, 409): break
        case (.android, 405), (.android, 440), (.ios, 405), (.ios, 440):
            // Once more, with the whole entity.
            if kept.copies[key] != nil, kept.requests[key]?.isWhole == false { return await sendWhole(key) }
            await acknowledge(key, code)
        case (.browser, 404), (.browser, 405):
            if code == 405 { kept.ghosts[key] = nil }
            await acknowledge(key, code)
            if !isListing { await list() }
        case (.browser, 440):
            kept.unfitting.insert(key)
            await acknowledge(key, code)
        default: ledger.fail("\(name) is told \(code) for \(key)")
        }
    }

    /// A change is answered, with an error unless the code is 0.
    private func acknowledge(_ key: String, _ code: Int64) async {
        guard let request = kept.requests.removeValue(forKey: key) else { return }
        if kind == .node, !request.isDeletion { answeredHere.insert(key) }
        if kept.owedDeletions.remove(key) != nil {
            if kept.changed.remove(key) != nil, kept.copies[key] != nil { excused.insert(key) }
            return await sendDeletion(key)
        }
        if kept.changed.remove(key) == nil {
            // Android keeps its entity, whose next change has all of the difference.
            if code != 0, kind == .ios || kind == .browser { kept.copies[key] = kept.ghosts[key]?.body }
        } else if kind == .node, request.isDeletion {
            // Of what was created again before the removal was answered, node sends nothing.
            excused.insert(key)
        } else {
            await sendChange(key)
        }
        if kind == .ios, kept.cv == nil, kept.requests.isEmpty, !isListing { await list() }
    }
}
