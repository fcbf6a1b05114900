package import AnabranchCore
package import AnabranchPropertyList

/// The outcome of a message, a command or an item of one (`Spec/OverTheAir.md`, section 2).
package struct Status: Error, Equatable, Sendable {
    /// The number; of a peer it may be one that is not known.
    package var code: Int
    /// A description for humans.
    package var description: String?
    /// The parameter that it is about.
    package var paramName: String?
    /// The index in it, from 0, if it is an array.
    package var paramIndex: Int?
    /// The key in it, if it is a dictionary.
    package var paramKey: String?

    package init(
        _ code: StatusCode, _ description: String? = nil, paramName: String? = nil, paramIndex: Int? = nil,
        paramKey: String? = nil
    ) {
        self.code = code.rawValue
        (self.description, self.paramName) = (description, paramName)
        (self.paramIndex, self.paramKey) = (paramIndex, paramKey)
    }

    /// The code, if it is known; of another number from 500 to 599 `serviceError`, and of the rest `failed`.
    package var knownCode: StatusCode {
        StatusCode(rawValue: code) ?? (500..<600 ~= code ? .serviceError : .failed)
    }

    /// Reads a status dictionary.
    /// - Throws: a `MessageError` within `place`.
    package init(_ value: PropertyList, at place: String) throws(MessageError) {
        guard let members = value.dictionary else { throw MessageError(place, "a status is a dictionary") }
        guard let code = try Self.number(members, "code", place) else { throw MessageError("\(place)/code", "missing") }
        self.code = code
        description = try members.text("description", place)
        paramName = try members.text("param_name", place)
        paramIndex = try Self.number(members, "param_index", place)
        paramKey = try members.text("param_key", place)
    }

    /// An integer, or one as text.
    private static func number(
        _ members: PropertyListDictionary, _ key: String, _ place: String
    ) throws(MessageError) -> Int? {
        switch members[key] {
        case nil: return nil
        case .integer(let number) where number >= 0: return Int(number)
        case .string(let text)?:
            if let number = Int(text), number >= 0 { return number }
        default: break
        }
        throw MessageError("\(place)/\(key)", "no integer from 0")
    }

    /// The status dictionary.
    package var propertyList: PropertyList {
        var members: PropertyListDictionary = ["code": .integer(Int64(code))]
        members["status"] = StatusCode(rawValue: code).map { .string($0.name) }
        members["description"] = description.map { .string($0) }
        members["param_name"] = paramName.map { .string($0) }
        members["param_index"] = paramIndex.map { .integer(Int64($0)) }
        members["param_key"] = paramKey.map { .string($0) }
        return .dictionary(members)
    }
}

extension [Status] {
    /// One status for all items, with the failed ones listed after it; those that are not named have succeeded.
    package init(failures: [Status]) {
        self = failures.isEmpty ? [Status(.ok)] : [Status(.multiStatus)] + failures
    }

    /// The failures by the key of `items` that each is about; nil if the statuses are not about items alone.
    package var failuresOfItems: [ExactString: Status]? {
        switch first?.knownCode {
        case .ok? where count == 1: return [:]
        case .multiStatus?:
            var failures: [ExactString: Status] = [:]
            for status in dropFirst() {
                guard status.paramName == "items", let key = status.paramKey else { return nil }
                failures[ExactString(key)] = status
            }
            return failures
        default: return nil
        }
    }
}
