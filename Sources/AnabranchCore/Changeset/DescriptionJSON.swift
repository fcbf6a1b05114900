// The JSON form of changesets, for programs (`Spec/Changeset.md` has the words, this the keys):
//
//   {"strings":[text…],"instructions":[instruction…]}           one instruction a line
//
// An instruction has "instruction", its name, and "class"; and as far as it has them "key", "field", "path", an array
// of list indices (numbers) and dictionary keys or fields (text), "value", "amount", "to", "priorSize", "default",
// "collection"; a column "type" (of Mixed: "Mixed"), "nullable", "collection", "target" and "keyType"; a table
// "tableType" and "primaryKey", an object of "field", "type" and "nullable".
//
// Text, values and keys have the forms of `Text/ValueJSON.swift`, in the style that loses nothing.

extension ChangesetArena {
    /// The changeset as a JSON object: the strings as they are, the live instructions as one object each.
    public func json(of changeset: ChangesetIndex) -> String {
        var text: [UInt8] = []
        text += "{\"strings\":[".utf8
        for (index, name) in stringTable(of: changeset).enumerated() {
            if index > 0 { text += ",".utf8 }
            JSONText.append(text: bytes(of: name), .exact, to: &text)
        }
        text += "],\"instructions\":[".utf8
        for (position, index) in instructionIndices(of: changeset).enumerated() {
            text += (position > 0 ? ",\n" : "\n").utf8
            append(self[index], to: &text)
        }
        text += "]}".utf8
        return String(decoding: text, as: UTF8.self)
    }

    /// One of those objects: an instruction.
    public func json(of instruction: Instruction) -> String {
        var text: [UInt8] = []
        append(instruction, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    private func append(_ instruction: Instruction, to text: inout [UInt8]) {
        text += "{\"instruction\":\"\(instruction.kind)\",\"class\":".utf8
        append(instruction.className, to: &text)
        if instruction.object != .none {
            text += ",\"key\":".utf8
            JSONText.append(primaryKey(of: instruction.object).key, .exact, to: &text)
        }
        if instruction.kind.hasPath { appendPath(of: instruction, to: &text) }
        switch instruction.kind {
        case .eraseTable, .createObject, .eraseObject: break
        case .addTable: appendTable(instruction, to: &text)
        case .addColumn: appendColumn(instruction, to: &text)
        case .eraseColumn: appendField(of: instruction, to: &text)
        case .addInteger: text += ",\"amount\":{\"int\":\"\(Int64(bitPattern: instruction.word0))\"}".utf8
        case .clear: text += ",\"collection\":\"\(instruction.collection)\"".utf8
        case .arrayMove: text += ",\"to\":\(instruction.destination)".utf8
        case .update, .arrayInsert, .setInsert, .setErase:
            text += ",\"value\":".utf8
            JSONText.append(payload(of: instruction), .exact, to: &text)
        case .arrayErase: break
        }
        switch instruction.kind {
        case .update where !instruction.isIndexed: text += ",\"default\":\(instruction.isDefault)".utf8
        case .update, .arrayInsert, .arrayMove, .arrayErase: text += ",\"priorSize\":\(instruction.priorSize)".utf8
        default: break
        }
        text += "}".utf8
    }

    private func appendPath(of instruction: Instruction, to text: inout [UInt8]) {
        appendField(of: instruction, to: &text)
        text += ",\"path\":[".utf8
        for (position, element) in path(of: instruction).enumerated() {
            if position > 0 { text += ",".utf8 }
            if element.isIndex { text += "\(element.index)".utf8 } else { append(element.name, to: &text) }
        }
        text += "]".utf8
    }

    private func appendTable(_ instruction: Instruction, to text: inout [UInt8]) {
        text += ",\"tableType\":\"\(instruction.tableType)\"".utf8
        guard instruction.tableType != .embedded else { return }
        text += ",\"primaryKey\":{\"field\":".utf8
        append(instruction.field, to: &text)
        text += ",\"type\":\"\(instruction.type)\",\"nullable\":\(instruction.isNullable)}".utf8
    }

    private func appendColumn(_ instruction: Instruction, to text: inout [UInt8]) {
        appendField(of: instruction, to: &text)
        text += ",\"type\":\"\(instruction.type == .null ? "Mixed" : "\(instruction.type)")\"".utf8
        text += ",\"nullable\":\(instruction.isNullable),\"collection\":\"\(instruction.collection)\"".utf8
        if instruction.type == .link {
            text += ",\"target\":".utf8
            append(instruction.target, to: &text)
        }
        if instruction.collection == .dictionary { text += ",\"keyType\":\"\(instruction.keyType)\"".utf8 }
    }

    private func appendField(of instruction: Instruction, to text: inout [UInt8]) {
        text += ",\"field\":".utf8
        append(instruction.field, to: &text)
    }

    private func append(_ name: NameID, to text: inout [UInt8]) {
        JSONText.append(text: bytes(of: name), .exact, to: &text)
    }
}
