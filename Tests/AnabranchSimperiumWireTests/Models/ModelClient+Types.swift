import AnabranchCore

@testable import AnabranchSimperiumWire

extension ModelClient {
    enum Kind: String, CaseIterable {
        case node, android, ios, browser
    }

    struct Ghost: Equatable {
        var version: Int64
        var body: EntityBody
    }

    /// A change that was asked for and is not answered.
    struct Request {
        let ident: String
        var message: String
        let isDeletion: Bool
        /// The version that it was made against.
        var source: Int64?
        var isWhole = false
        /// False until it is sent for the first time.
        var isSaid = false
    }

    /// The state that outlives the client's process; of node, nothing does.
    struct Kept {
        var ghosts: [String: Ghost] = [:]
        var copies: [String: EntityBody] = [:]
        var requests: [String: Request] = [:]
        /// Entities that were changed while a change of them was on its way.
        var changed: Set<String> = []
        /// Those of node that were removed while a change of them was on its way, by whoever.
        var owedDeletions: Set<String> = []
        /// Those that a browser sends as a whole the next time.
        var unfitting: Set<String> = []
        var cv: String?
        /// The value of `cv` before: node is left with an older one where changes of several entities cross.
        var olderCVs: [String] = []
    }

    enum Arrival {
        case message(Substring)
        case change(JSONValue)
        /// All changes of a message were taken.
        case endOfChanges
    }
}
