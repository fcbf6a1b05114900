import AnabranchPropertyList

extension DeviceSession {
    // MARK: Responses

    /// Takes a response to a command of the server. One that answers nothing is not looked at.
    mutating func take(_ item: MessageItem, _ data: inout some SessionData) throws {
        guard let result = item.result?.first, let question = asked[item.sequence] else { return }
        if result.knownCode.syncEffect != .waits, !item.hasMore { asked[item.sequence] = nil }
        switch question {
        case .deviceInfo:
            guard result.knownCode.syncEffect != .waits else { return }
            // A device that does not say what it is can do everything.
            do {
                try data.set(item.params["value"] ?? [:], of: "deviceinfo")
            } catch is Status {
                try data.set([:], of: "deviceinfo")
            }
        case .changes(let uri, let sent):
            guard let state = classes[uri], let push = state.push else { return }
            if result.knownCode.syncEffect == .none, let ids = try? Changes.idMap(item.params["idmap"]), !ids.isEmpty {
                try data.takeIDs(ids, of: uri, from: (push, sent))
            }
            take(result, uri)
        case .commit(let uri):
            if let anchor = item.params["anchors"].flatMap({ try? Anchors($0) })?.nextDeviceAnchor {
                try data.rename(uri, to: anchor)
            }
            if result.knownCode.syncEffect == .none { classes[uri]?.phase = .done }
            take(result, uri)
        }
    }

    private mutating func take(_ result: Status, _ uri: String) {
        switch result.knownCode.syncEffect {
        case .none, .waits, .commandFails, .startFails: break
        case .dataclassEnds: end(uri)
        case .sessionEnds: for uri in order { end(uri) }
        }
    }

    // MARK: Commands

    /// Carries out a command.
    /// - Parameter failed: the dataclasses of which a command of the sync family has failed in this message.
    /// - Returns: the response, but for changes whose outcome comes with the mingle of this message.
    mutating func respond(
        to item: MessageItem, _ failed: inout Set<PropertyList>, _ data: inout some SessionData
    ) throws -> [MessageItem] {
        let isSync = item.name.hasPrefix("sync-"), uri = item.params["uri"] ?? ""
        if isSync, failed.contains(uri) { return [item.response([Status(.commandNotProcessed)])] }
        do {
            return try carryOut(try Command(item), item, &data)
        } catch let refusal as StartRefusal {
            failed.insert(uri)
            var response = item.response([
                Status(.negotiationFailed, refusal.reason, paramName: "anchors", paramKey: "mode")
            ])
            response.params["anchors"] = refusal.anchors.propertyList
            return [response]
        } catch let status as Status {
            if isSync {
                failed.insert(uri)
                // A wrong parameter or a wrong moment ends what it is about, and nothing else.
                if let name = uri.string, status.knownCode.syncEffect == .dataclassEnds, classes[name] != nil,
                    status.knownCode != .canceled
                {
                    try cancel(name, .ended, &data)
                }
            }
            return [item.response([status])]
        }
    }

    private mutating func carryOut(
        _ command: Command, _ item: MessageItem, _ data: inout some SessionData
    ) throws -> [MessageItem] {
        if isFinal { throw Status(.stateError, "the server has said that it is at the end") }
        switch command {
        case .get(let uri):
            var response = item.response([Status(.ok)])
            response.params["value"] = try data.value(of: uri)
            return [response]
        case .put(let uri, let value, _): try data.set(value, of: uri)
        case .delete(let uri): try data.set(nil, of: uri)
        case .start(let uri, let anchors): try start(uri, anchors, &data)
        case .changes(let uri, let changes): return try pull(uri, changes, item, &data)
        case .commit(let uri, let anchors):
            guard let state = classes[uri] else { throw Status(.stateError, "not started", paramName: "uri") }
            if state.phase == .canceled { throw Status(.canceled, paramName: "uri") }
            guard [.commit, .uncommitted].contains(state.phase) else {
                throw Status(.stateError, "nothing is to be committed now")
            }
            if let name = anchors.nextDeviceAnchor { try data.rename(uri, to: name) }
            if state.phase == .uncommitted {
                // It is answered when those of other dataclasses have come as well.
                classes[uri]?.phase = .committing
                classes[uri]?.commit = item.sequence
                return []
            }
            classes[uri]?.phase = .done
            var response = item.response([Status(.ok)])
            response.params["anchors"] = state.committed?.propertyList
            return [response]
        case .cancel(let uri):
            guard let state = classes[uri], state.phase != .done else {
                throw Status(.stateError, "nothing is under way", paramName: "uri")
            }
            if state.phase == .canceled { throw Status(.canceled, paramName: "uri") }
            try cancel(uri, .canceled, &data)
        }
        return [item.response([Status(.ok)])]
    }

    /// Ends the exchange of a dataclass, and with it what the device has sent, unless that is merged.
    private mutating func cancel(_ uri: String, _ phase: Phase, _ data: inout some SessionData) throws {
        if let state = classes[uri], ![.refused, .ended].contains(state.phase) { try data.forget(uri) }
        end(uri, phase)
    }

    private mutating func start(_ uri: String, _ anchors: Anchors, _ data: inout some SessionData) throws {
        if let state = classes[uri] {
            if state.phase == .canceled { throw Status(.canceled, paramName: "uri") }
            guard state.phase == .refused else { throw Status(.stateError, "started already", paramName: "uri") }
        } else {
            guard order.count < limits.classesMax else { throw Status(.limitExceeded, paramName: "uri") }
            order.append(uri)
            classes[uri] = ClassState(pull: Pull(uri: uri, anchors: anchors))
        }
        do {
            try data.start(uri, anchors)
            classes[uri]?.pull = Pull(uri: uri, anchors: anchors)
            classes[uri]?.phase = .pull
        } catch let refusal as StartRefusal {
            let refusals = (classes[uri]?.refusals ?? 0) + 1
            classes[uri]?.refusals = refusals
            classes[uri]?.refusedAt = received
            if refusals == 2 { end(uri) }
            throw refusal
        }
    }

    private mutating func pull(
        _ uri: String, _ changes: Changes, _ item: MessageItem, _ data: inout some SessionData
    ) throws -> [MessageItem] {
        guard let state = classes[uri], state.phase != .refused else {
            throw Status(.stateError, "not started", paramName: "uri")
        }
        if state.phase == .canceled { throw Status(.canceled, paramName: "uri") }
        guard state.phase != .ended else { throw Status(.stateError, "it has ended", paramName: "uri") }
        if !changes.idMap.isEmpty { try data.takeIDs(changes.idMap, of: uri, from: nil) }
        if !changes.idMap.isEmpty, changes.items.isEmpty { return [item.response([Status(.ok)])] }
        guard state.phase == .pull else { throw Status(.stateError, "the last changes are there already") }
        classes[uri]?.pull.commands.append(Pull.Command(sequence: item.sequence, changes: changes))
        if !item.hasMore { classes[uri]?.phase = .wait }
        return []
    }
}
