import AnabranchCore
import AnabranchHistory

extension Explanation {
    /// The explanation as a JSON object on one line (`Spec/Explain.md`, section 2.3).
    public var json: String {
        var members = author.members
        if let base { members.append(("base", "\(base)")) }
        members += [
            ("unseen", "\(unseenCount)"), ("certainty", JSONText.quoted(certainty.rawValue)),
            ("upload_kept", "\(isUploadKept)"),
            ("instructions", jsonArray(instructions.map(\.json))), ("effects", jsonArray(effects.map(\.json))),
            ("decisions", jsonArray(decisions.map(\.json))),
        ]
        return jsonObject(members)
    }
}

extension Explanation.Instruction {
    fileprivate var json: String {
        jsonObject([
            ("uploaded", uploaded.json), ("logged", logged?.json ?? "null"), ("refused", "\(isRefused)"),
        ])
    }
}

extension Explanation.Effect {
    fileprivate var json: String {
        jsonObject([
            ("rule", JSONText.quoted(rule.rawValue)), ("sentence", JSONText.quoted(rule.sentence)),
            ("instruction", position.map { "\($0)" } ?? "null"), ("own", own.json), ("other", other.json),
            ("by", jsonObject(author.members)),
        ])
    }
}

extension ViewDecision {
    fileprivate var json: String {
        var key: [UInt8] = []
        JSONText.append(object.key, .exact, to: &key)
        return jsonObject([
            ("class", JSONText.quoted(string(object.className))), ("key", string(key)), ("refused", "\(isRefused)"),
            ("condition", JSONText.quoted(condition.rawValue)), ("sentence", JSONText.quoted(sentence)),
            ("role", role.map(JSONText.quoted) ?? "null"), ("text", text.map(JSONText.quoted) ?? "null"),
        ])
    }
}

extension Explanation.Side {
    fileprivate var json: String {
        jsonObject([("before", before.json), ("after", after?.json ?? "null"), ("affected", "\(isAffected)")])
    }
}

extension Author {
    /// The members of a JSON object, with their values as JSON.
    fileprivate var members: [(name: String, value: String)] {
        var members = [("version", "\(version)"), ("client", "\(client)"), ("timestamp", "\(time)")]
        if let integrated { members.append(("integrated", "\(integrated)")) }
        if let user { members.append(("user", JSONText.quoted(user))) }
        if uploader.release != 0 { members.append(("release", "\(uploader.release)")) }
        if uploader.protocolVersion != 0 { members.append(("protocol", "\(uploader.protocolVersion)")) }
        return members
    }
}

extension Blame {
    /// The blame as a JSON object on one line (`Spec/Explain.md`, section 3).
    public var json: String {
        var key: [UInt8] = [], className: [UInt8] = []
        JSONText.append(object.key, .exact, to: &key)
        JSONText.append(text: object.className, .exact, to: &className)
        return jsonObject([
            ("class", string(className)), ("key", string(key)), ("known_after", "\(beginning)"),
            ("created", creation.map { jsonObject($0.members) } ?? "null"),
            ("values", jsonArray(lines.map(\.json))),
        ])
    }
}

extension Blame.Line {
    fileprivate var json: String {
        jsonObject([
            ("place", JSONText.quoted(place)), ("value", string(value)),
            ("by", author.map { jsonObject($0.members) } ?? "null"),
        ])
    }
}

extension Edit {
    /// The edit as a JSON object on one line (`Spec/Explain.md`, section 7).
    public var json: String {
        jsonObject([
            ("first", "\(versions.lowerBound)"), ("last", "\(versions.upperBound)"), ("versions", "\(versionCount)"),
            ("client", "\(author)"), ("first_timestamp", "\(times.lowerBound)"),
            ("last_timestamp", "\(times.upperBound)"), ("objects", jsonArray(objects.map(\.json))),
            ("changes_schema", "\(changesSchema)"),
        ])
    }
}

extension Edit.Object {
    fileprivate var json: String {
        var key: [UInt8] = []
        JSONText.append(object.key, .exact, to: &key)
        return jsonObject([
            ("class", JSONText.quoted(string(object.className))), ("key", string(key)), ("inserted", "\(isInserted)"),
            ("deleted", "\(isDeleted)"), ("fields", jsonArray(fields.map { JSONText.quoted(string($0)) })),
        ])
    }
}

private func jsonObject(_ members: [(name: String, value: String)]) -> String {
    "{" + members.map { "\(JSONText.quoted($0.name)):\($0.value)" }.joined(separator: ",") + "}"
}

private func jsonArray(_ elements: [String]) -> String { "[" + elements.joined(separator: ",") + "]" }

private func string(_ utf8: [UInt8]) -> String { String(decoding: utf8, as: UTF8.self) }
