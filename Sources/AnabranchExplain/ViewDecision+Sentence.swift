public import AnabranchHistory

extension ViewDecision {
    /// The reason in plain English, without the text of the condition.
    public var sentence: String {
        switch condition {
        case .insert: "\(subject) may not create this object"
        case .writeBefore: "\(subject) may not change the object as it was"
        case .writeAfter: "\(subject) may not change the object to this"
        case .delete: "\(subject) may not erase the object"
        case .read: "\(subject) may not read the object\(isRefused ? "" : " as it is now")"
        case .query where text == nil: "the client has no query for this class"
        case .query: "the client's query does not match the object\(isRefused ? "" : " as it is now")"
        case .existence: "there is no such object"
        }
    }

    private var subject: String { role.map { "a user with the role \"\($0)\"" } ?? "a user without a role" }
}
