#if canImport(CLibPQ)
import AnabranchClient
import AnabranchCore

extension RowChange {
    /// The properties of a class by the names of columns, and the type of its keys.
    private struct ClassForm {
        let keyType: PayloadType
        let properties: [ExactString: Property]
    }

    /// Carries out changes in a transaction of the replica.
    /// - Returns: what could not be carried out.
    static func write(_ changes: [RowChange], in transaction: WriteTransaction) throws -> [RowConflict] {
        let state = transaction.state
        let reading = ValueReading(state), writing = ValueWriting(state)
        var forms: [ExactString: ClassForm] = [:]
        for schema in state.classes {
            let named = schema.properties.map { (ExactString(String(decoding: $0.name, as: UTF8.self)), $0) }
            forms[ExactString(String(decoding: schema.name, as: UTF8.self))] = ClassForm(
                keyType: schema.key?.type ?? .null, properties: Dictionary(named) { first, _ in first })
        }
        var conflicts: [RowConflict] = []
        for change in changes {
            guard let form = forms[ExactString(change.className)] else { continue }
            func record(_ kind: String, _ lost: String) {
                conflicts.append(
                    RowConflict(className: change.className, key: change.key, kind: kind, lost: lost))
            }
            guard let key = BridgedTable.objectKey(change.key, form.keyType) else {
                if case .put = change.kind { record("value", "its key is not of type \(form.keyType), or is too long") }
                continue
            }
            let object = try transaction.object(change.className, key: key)
            guard case .put(let values, let isNew) = change.kind else {
                if let object { try transaction.delete(object) }
                continue
            }
            guard object != nil || isNew else {
                let lost = values.map { (JSONName($0.column), $0.value) }
                record("erased", JSONValue.object(Dictionary(lost) { $1 }).encoded)
                continue
            }
            let known = try object.flatMap { try state.object($0.reference) }
            var fields: [JSONName: JSONValue] = [:]
            for (name, value) in values {
                guard let property = form.properties[ExactString(name)] else { continue }
                do throws(ValueReading.Unfit) {
                    let new = try reading.exported(value, property)
                    let old = known.flatMap { JSONValue($0.value(of: property), property, writing, reading) }
                    if let old, normalized(old) == normalized(new) { continue }
                    fields[JSONName(name)] = new
                } catch { record("value", "\(name): \(error.reason)") }
            }
            try put(fields, change, key, in: transaction, record)
        }
        return conflicts
    }

    private static func put(
        _ fields: [JSONName: JSONValue], _ change: RowChange, _ key: PrimaryKey, in transaction: WriteTransaction,
        _ record: (String, String) -> Void
    ) throws {
        var text: [UInt8] = []
        JSONText.append(key, .exact, to: &text)
        let json = try JSONValue(parsing: text)
        do { _ = try transaction.importObject(change.className, json, fields) } catch is LineError {
            // One that does not fit keeps none of the others away.
            _ = try transaction.importObject(change.className, json, [:])
            for field in fields {
                do { _ = try transaction.importObject(change.className, json, [field.key: field.value]) } catch let
                    error
                    as LineError
                { record("value", "\(field.key.text): \(error.reason)") }
            }
        }
    }

    /// A value in one form for all that rows cannot tell from it: decimals of the same value.
    private static func normalized(_ json: JSONValue) -> JSONValue {
        switch json {
        case .array(let elements): return .array(elements.map(normalized))
        case .object(let members):
            if members.count == 1, let text = json["dec"]?.string, let number = DecimalText(text.utf8) {
                let sign = number.isNegative ? "-" : ""
                return ["dec": .string("\(sign)\(number.significand)E\(number.significand == 0 ? 0 : number.exponent)")]
            }
            return .object(members.mapValues(normalized))
        default: return json
        }
    }
}

extension JSONValue {
    /// The value of an object as its row has it: times to the microsecond.
    fileprivate init?(_ value: StateValue, _ property: Property, _ writing: ValueWriting, _ reading: ValueReading) {
        var text: [UInt8] = []
        writing.append(value, property.type, to: &text)
        guard let json = try? JSONValue(parsing: text, depthMax: ExportLine.depthMax),
            let exported = try? reading.exported(json, property)
        else { return nil }
        self = exported
    }
}
#endif
