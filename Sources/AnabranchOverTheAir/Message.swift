package import AnabranchPropertyList

/// A message of either side (`Spec/OverTheAir.md`, section 1).
package struct Message: Equatable, Sendable {
    /// The sender of a message, its session, and the number of the message in it.
    package struct Header: Equatable, Sendable {
        /// The id of the sender.
        package var deviceID: String
        /// The name of the service that is spoken to.
        package var service: String
        /// The account that is spoken about.
        package var userID: String
        /// The number of the message: 1, 2, 3 … per sender and session.
        package var sequence: Int
        /// A phone number.
        package var phoneNumber: String?
        /// True if the sender sends no more commands.
        package var isFinal = false
        /// The reason why the message before was not processed; nil if it was.
        package var failure: Status?

        package init(deviceID: String, service: String, userID: String, sequence: Int) {
            (self.deviceID, self.service, self.userID, self.sequence) = (deviceID, service, userID, sequence)
        }
    }

    /// The version of the protocol.
    package static let version = "1.0"

    /// The header.
    package var header: Header
    /// Commands and responses, in order.
    package var body: [MessageItem]

    package init(header: Header, body: [MessageItem] = []) { (self.header, self.body) = (header, body) }

    /// Reads a message in either form; the answer goes in the same one, `PropertyList.Form(sniffing:)`.
    package init(
        parsing bytes: some Collection<UInt8>, limits: PropertyListLimits = PropertyListLimits()
    ) throws(MessageError) {
        let root: PropertyList
        do { root = try PropertyList(parsing: bytes, limits: limits) } catch { throw MessageError(error) }
        try self.init(root)
    }

    /// Reads a message.
    package init(_ root: PropertyList) throws(MessageError) {
        guard let members = root.dictionary else { throw MessageError("/", "a message is a dictionary") }
        guard let header = members["header"]?.dictionary else { throw MessageError("/header", "no dictionary") }
        guard let body = members["body"]?.array else { throw MessageError("/body", "no array") }
        self.header = try Header(header)
        self.body = []
        for (index, value) in body.enumerated() { self.body.append(try MessageItem(value, at: "/body/\(index)")) }
        var last = 0
        for (index, item) in self.body.enumerated() where !item.isResponse {
            guard item.sequence > last else {
                throw MessageError("/body/\(index)/sequence", "no larger than that of the command before")
            }
            last = item.sequence
        }
    }

    /// The bytes of the message.
    /// - Throws: a `PropertyListError` if a value cannot be written in the form.
    package func encoded(
        as form: PropertyList.Form, limits: PropertyListLimits = PropertyListLimits()
    ) throws(PropertyListError) -> [UInt8] {
        try PropertyList.dictionary(["header": header.propertyList, "body": .array(body.map(\.propertyList))])
            .encoded(as: form, limits: limits)
    }
}

extension PropertyListLimits {
    /// Those of the server's answers: a record may be longer than what a device may send.
    package static let answers = PropertyListLimits(bytesMax: 32 << 20, valuesMax: 1 << 24)
}

extension Message.Header {
    fileprivate init(_ members: PropertyListDictionary) throws(MessageError) {
        let place = "/header"
        func required(_ key: String) throws(MessageError) -> String {
            guard let text = try members.text(key, place), !text.isEmpty else {
                throw MessageError("\(place)/\(key)", "missing")
            }
            return text
        }
        let version = try required("version")
        guard version == Message.version else {
            throw MessageError("\(place)/version", "only 1.0 is spoken", code: .versionNotSupported)
        }
        deviceID = try required("deviceid")
        service = try required("service")
        userID = try required("userid")
        sequence = try members.sequence(place)
        phoneNumber = try members.text("msisdn", place)
        isFinal = try members.isSet("final", place)
        let result = members["result"]
        let status: Status? = if let result { try Status(result, at: "\(place)/result") } else { nil }
        failure = status?.knownCode == .ok ? nil : status
    }

    fileprivate var propertyList: PropertyList {
        var members: PropertyListDictionary = [
            "version": .string(Message.version), "deviceid": .string(deviceID), "service": .string(service),
            "userid": .string(userID), "sequence": .integer(Int64(sequence)),
        ]
        members["msisdn"] = phoneNumber.map { .string($0) }
        members["final"] = isFinal ? true : nil
        members["result"] = failure?.propertyList
        return .dictionary(members)
    }
}

/// A command, a response, or a fragment of one.
package struct MessageItem: Equatable, Sendable {
    /// The name of the command, as `sync-start`; perhaps one that is not known.
    package var name: String
    /// The number of the command among those of its sender.
    package var sequence: Int
    /// The parameters.
    package var params: PropertyListDictionary
    /// True if fragments follow in later messages.
    package var hasMore = false
    /// The outcome, of a response; nil for a command.
    package var result: [Status]?

    package init(
        _ name: String, _ sequence: Int, _ params: PropertyListDictionary, hasMore: Bool = false,
        result: [Status]? = nil
    ) {
        (self.name, self.sequence, self.params) = (name, sequence, params)
        (self.hasMore, self.result) = (hasMore, result)
    }

    package var isResponse: Bool { result != nil }

    /// The response to a command, about the same resource or dataclass.
    package func response(_ result: [Status]) -> MessageItem {
        var params: PropertyListDictionary = [:]
        params["uri"] = self.params["uri"]
        return MessageItem(name, sequence, params, result: result)
    }

    fileprivate init(_ value: PropertyList, at place: String) throws(MessageError) {
        guard let members = value.dictionary else { throw MessageError(place, "no dictionary") }
        guard let name = try members.text("name", place) else { throw MessageError("\(place)/name", "missing") }
        guard let params = members["params"]?.dictionary else { throw MessageError("\(place)/params", "no dictionary") }
        (self.name, self.params, sequence) = (name, params, try members.sequence(place))
        hasMore = try members.isSet("more", place)
        guard try members.isSet("response", place) else { return }
        guard let statuses = members["result"]?.array, !statuses.isEmpty else {
            throw MessageError("\(place)/result", "no array of statuses")
        }
        var result: [Status] = []
        for (index, status) in statuses.enumerated() {
            result.append(try Status(status, at: "\(place)/result/\(index)"))
        }
        self.result = result
    }

    fileprivate var propertyList: PropertyList {
        var members: PropertyListDictionary = [
            "name": .string(name), "sequence": .integer(Int64(sequence)), "params": .dictionary(params),
        ]
        members["more"] = hasMore ? true : nil
        members["response"] = isResponse ? true : nil
        members["result"] = result.map { .array($0.map(\.propertyList)) }
        return .dictionary(members)
    }
}
