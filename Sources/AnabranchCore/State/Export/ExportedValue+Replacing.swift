// Exports of other values in the place of those of a state (`Spec/Explain.md`, section 9).

extension ExportedValue {
    /// The content with other values and names.
    func replaced(by replacement: (Payload) -> Payload) -> ExportedValue {
        switch self {
        case .value(.link(let className, let key)):
            .value(.link(className: className.replaced(by: replacement), key: key.replaced(by: replacement)))
        case .value(let payload): .value(replacement(payload))
        case .list(let elements): .list(elements.map { $0.replaced(by: replacement) })
        case .set(let elements): ExportedValue(setOf: elements.map { $0.replaced(by: replacement) })
        case .dictionary(let entries):
            ExportedValue(
                dictionaryOf: entries.map { ($0.key.replaced(by: replacement), $0.value.replaced(by: replacement)) })
        case .object(let fields): .object(fields.replaced(by: replacement))
        }
    }
}

extension [(name: [UInt8], value: ExportedValue)] {
    /// The fields with other names and values.
    func replaced(by replacement: (Payload) -> Payload) -> Self {
        map { ($0.name.replaced(by: replacement), $0.value.replaced(by: replacement)) }
    }
}
