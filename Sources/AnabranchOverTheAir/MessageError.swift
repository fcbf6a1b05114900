package import AnabranchPropertyList

/// The reason why a message is not understood or not processed (`Spec/OverTheAir.md`, section 1). Its code is what the
/// header of the answer says.
package struct MessageError: Error, Equatable, Sendable {
    /// `badRequest` for bytes that are not a message, `limitExceeded`, or `versionNotSupported`.
    package var code: StatusCode
    /// The keys and indices that lead to it, as `/body/0/sequence`; empty for the bytes of the message.
    package var place: String
    /// A description of the fault, in words.
    package var reason: String

    package init(_ place: String, _ reason: String, code: StatusCode = .badRequest) {
        (self.code, self.place, self.reason) = (code, place, reason)
    }

    /// The error of a message that is not a property list.
    package init(_ error: PropertyListError) {
        self.init("", "\(error)", code: error.code == .limitExceeded ? .limitExceeded : .badRequest)
    }

    /// The status for the header of the answer.
    package var status: Status { Status(code, place.isEmpty ? reason : "\(place): \(reason)") }
}

extension PropertyListDictionary {
    /// The text of a key; nil without one.
    func text(_ key: String, _ place: String) throws(MessageError) -> String? {
        guard let value = self[key] else { return nil }
        guard let text = value.string else { throw MessageError("\(place)/\(key)", "no text") }
        return text
    }

    /// True if the key is there; its value is true, and nothing else.
    func isSet(_ key: String, _ place: String) throws(MessageError) -> Bool {
        guard let value = self[key] else { return false }
        guard value == true else { throw MessageError("\(place)/\(key)", "neither true nor absent") }
        return true
    }

    /// A number from 1.
    func sequence(_ place: String) throws(MessageError) -> Int {
        guard let number = self["sequence"]?.integer, number >= 1 else {
            throw MessageError("\(place)/sequence", "no integer from 1")
        }
        return Int(number)
    }
}
