import AnabranchCore
import AnabranchTesting

/// A changeset that decodes has one encoding, which says the same; it applies to a state or leaves that as it was.
func fuzzChangeset(_ bytes: [UInt8]) -> String? {
    var arena = ChangesetArena()
    let tag = OriginTag(timestamp: 10, ident: 2)
    guard let changeset = try? arena.decode(bytes, version: 1, tag: tag) else { return nil }
    // A changeset without instructions loses its strings.
    let encoded = arena.encodedAnew(changeset), lines = arena.instructions(of: changeset).map { arena.text(of: $0) }
    var again = ChangesetArena()
    guard let same = try? again.decode(encoded, version: 1, tag: tag) else { return "encoded, it does not decode" }
    if again.encodedAnew(same) != encoded { return "it has two encodings" }
    if again.instructions(of: same).map({ again.text(of: $0) }) != lines { return "encoded, it says something else" }
    let before = ChangesetFuzz.state
    var after = before
    do throws(ApplyError) {
        _ = try after.apply(changeset, of: arena)
        return nil
    } catch {
        if error.code == .unavailable { return "a state in memory is said to be unavailable" }
        let isSame = (try? StateDigest(of: after)) == ChangesetFuzz.digest
        return isSame ? nil : "what was refused has changed the state: \(error)"
    }
}

private enum ChangesetFuzz {
    /// A state like that of clients that have begun to write; an empty one if that cannot be made.
    static let state: ObjectGraph = {
        var graph = ObjectGraph()
        _ = try? graph.write(as: 2) { try RandomWorld.begin($0) }
        return graph
    }()
    static let digest = try? StateDigest(of: state)
}
