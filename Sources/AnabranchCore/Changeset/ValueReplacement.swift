// Names, keys and values of decoded changesets, read and replaced: for copies that show the shape of a history and
// not its content (`Spec/Explain.md`, section 9).

extension ChangesetArena {
    /// Calls `body` with each name, key and value of the changesets, in no order and some of them repeatedly.
    ///
    /// Names, also those in links, paths and string tables, are Strings. GlobalKeys are left out: they are numbers that
    /// the system has made.
    package func forEachValue<Failure>(_ body: (Payload) throws(Failure) -> Void) throws(Failure) {
        for span in names.spans { try body(.string(Array(bytes[span.range]))) }
        for key in objects.keys { if let value = key.number { try body(value) } }
        for instruction in instructions where instruction.carriesValue && instruction.type != .link {
            try body(payload(of: instruction))
        }
    }

    /// Replaces each name, key and value by another one of the same type; texts and binaries keep their lengths.
    ///
    /// Nothing may be decoded or merged afterwards.
    package mutating func replaceValues(_ replacement: (Payload) -> Payload) {
        for span in names.spans { replace(.string(Array(bytes[span.range])), at: span.range, replacement) }
        objects.replaceNumbers(replacement)
        for position in instructions.indices where instructions[position].carriesValue {
            let instruction = instructions[position]
            if instruction.type == .string || instruction.type == .binary {
                let range = instruction.bytesOffset..<instruction.bytesOffset + instruction.bytesCount
                replace(payload(of: instruction), at: range, replacement)
            } else {
                instructions[position] = replacingNumber(of: instruction, replacement)
            }
        }
        for position in headers.indices { headers[position].isDirty = true }
    }

    /// An instruction as it was at some moment of a merge, for an arena whose values have been replaced.
    package func replacingNumber(of instruction: Instruction, _ replacement: (Payload) -> Payload) -> Instruction {
        var instruction = instruction
        guard instruction.carriesValue, instruction.type != .string, instruction.type != .binary,
            let words = replacement(payload(of: instruction)).words
        else { return instruction }
        (instruction.word0, instruction.word1) = words
        return instruction
    }

    private mutating func replace(_ text: Payload, at range: Range<Int>, _ replacement: (Payload) -> Payload) {
        switch replacement(text) {
        case .string(let text), .binary(let text):
            precondition(text.count == range.count, "a text keeps its length")
            bytes.replaceSubrange(range, with: text)
        default: preconditionFailure("a text stays a text")
        }
    }
}

extension ObjectTable {
    /// Replaces the keys that are numbers, ObjectIds and UUIDs. No object can be looked up afterwards.
    fileprivate mutating func replaceNumbers(_ replacement: (Payload) -> Payload) {
        replaceKeys { key in
            guard let words = key.number.flatMap({ replacement($0).words }) else { return }
            (key.word0, key.word1) = words
        }
    }
}

extension ObjectKey {
    /// The key, if it is neither text nor a GlobalKey nor null.
    fileprivate var number: Payload? {
        switch type {
        case .int: .int(Int64(bitPattern: word0))
        case .objectID: .objectID(ObjectID(low: word0, high: word1))
        case .uuid: .uuid(UUIDBytes(low: word0, high: word1))
        default: nil
        }
    }
}

extension InternedStrings.Span {
    fileprivate var range: Range<Int> { Int(offset)..<Int(offset) + Int(count) }
}

extension Instruction {
    /// True if it has a payload.
    fileprivate var carriesValue: Bool {
        switch kind {
        case .update, .addInteger, .arrayInsert, .setInsert, .setErase: true
        default: false
        }
    }
}

extension Payload {
    /// The words of a number, ObjectId or UUID in an instruction; nil for other values.
    fileprivate var words: (UInt64, UInt64)? {
        switch self {
        case .int(let value): (UInt64(bitPattern: value), 0)
        case .timestamp(let value):
            (UInt64(bitPattern: value.seconds), UInt64(bitPattern: Int64(value.nanoseconds)))
        case .float(let value): (UInt64(value.bitPattern), 0)
        case .double(let value): (value.bitPattern, 0)
        case .decimal(let value): (value.low, value.high)
        case .objectID(let value): (value.low, value.high)
        case .uuid(let value): (value.low, value.high)
        case .null, .bool, .string, .binary, .link, .objectValue, .dictionary, .list, .set, .erased: nil
        }
    }
}

extension [UInt8] {
    /// The name that stands for this one.
    func replaced(by replacement: (Payload) -> Payload) -> [UInt8] {
        if case .string(let text) = replacement(.string(self)) { text } else { self }
    }
}

extension PrimaryKey {
    /// The key that stands for this one; a GlobalKey stands for itself.
    package func replaced(by replacement: (Payload) -> Payload) -> PrimaryKey {
        switch self {
        case .null, .globalKey: self
        case .int(let value): PrimaryKey(replacement(.int(value))) ?? self
        case .string(let value): .string(value.replaced(by: replacement))
        case .objectID(let value): PrimaryKey(replacement(.objectID(value))) ?? self
        case .uuid(let value): PrimaryKey(replacement(.uuid(value))) ?? self
        }
    }
}
