import AnabranchPropertyList

/// A property list that can be read is written in both forms so that it reads the same; refused is only what is never
/// written, and what is too long with everything written out that was shared.
func fuzzPropertyList(_ bytes: [UInt8]) -> String? {
    guard let value = try? PropertyList(parsing: bytes) else { return nil }
    for form in PropertyList.Form.allCases {
        do throws(PropertyListError) {
            let written = try value.encoded(as: form)
            let again = try PropertyList(parsing: written)
            guard again == value else { return "written as \(form), it reads \(again), not \(value)" }
            guard try again.encoded(as: form) == written else { return "written as \(form) again, it is other bytes" }
        } catch {
            if error.code == .malformed { return "written as \(form), it cannot be read: \(error)" }
        }
    }
    return nil
}
