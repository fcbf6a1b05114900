import AnabranchOverTheAir
import AnabranchPropertyList

/// A message that is understood is written so that it reads the same, and so are its commands and their items.
func fuzzOverTheAirMessage(_ bytes: [UInt8]) -> String? {
    guard let message = try? Message(parsing: bytes) else { return nil }
    for form in PropertyList.Form.allCases {
        guard let written = try? message.encoded(as: form) else { continue }
        do throws(MessageError) {
            guard try Message(parsing: written) == message else { return "written as \(form), it reads differently" }
        } catch {
            guard error.code == .limitExceeded else { return "written as \(form), it is not understood: \(error)" }
        }
    }
    for item in message.body {
        guard let command = try? Command(item) else { continue }
        guard (try? Command(command.item(item.sequence))) == command else { return "a command changes: \(command)" }
        guard case .changes(_, let changes) = command else { continue }
        for id in changes.items.keys {
            guard let item = try? changes.item(id) else { continue }
            let again = Changes(changes.itemType, [id: Changes.propertyList(item)])
            guard (try? again.item(id)) == item else { return "an item changes: \(item)" }
        }
    }
    return nil
}
