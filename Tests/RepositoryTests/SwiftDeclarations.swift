/// A declaration as a reader of the tokens sees it. Locals of functions are not found.
struct SwiftDeclaration {
    enum Kind {
        case type, function, variable
    }

    let name: String
    let kind: Kind
    /// The types and extensions around it, from the outermost in.
    let scopes: [SwiftScope]
    /// It, or a type around it, is visible in its file only.
    let isPrivate: Bool
}

/// The owner of braces.
struct SwiftScope {
    enum Kind {
        case type, `extension`, other
    }

    let kind: Kind
    /// The name of the type; empty for `other` and for extensions of types that have none, such as `[String: Int]`.
    let name: String
    let isPrivate: Bool
}

extension SwiftSource {
    /// Everything that is declared outside functions, closures and accessors.
    func declarations() -> [SwiftDeclaration] {
        var declarations: [SwiftDeclaration] = [], scopes: [SwiftScope] = []
        var pending: SwiftScope?
        for (index, token) in tokens.enumerated() {
            switch token.text {
            case "{":
                scopes.append(pending ?? SwiftScope(kind: .other, name: "", isPrivate: false))
                pending = nil
            case "}":
                _ = scopes.popLast()
            default:
                guard scopes.last?.kind != .other, self[index - 1] != ".", self[index - 1] != "import",
                    let declared = declared(at: index)
                else { continue }
                let isPrivate = isPrivate(at: index) || scopes.contains(where: \.isPrivate)
                pending = SwiftScope(kind: declared.scope, name: declared.name, isPrivate: isPrivate)
                guard let kind = declared.kind else { continue }
                declarations.append(
                    SwiftDeclaration(name: declared.name, kind: kind, scopes: scopes, isPrivate: isPrivate))
            }
        }
        return declarations
    }

    /// The declaration that the keyword at `index` begins, if it is one; an extension declares nothing by itself.
    private func declared(
        at index: Int
    ) -> (name: String, kind: SwiftDeclaration.Kind?, scope: SwiftScope.Kind)? {
        let name = self[index + 1]
        guard name.first?.isLetter == true || name.first == "_" else {
            return self[index] == "extension" ? ("", nil, .extension) : nil
        }
        switch self[index] {
        case "struct", "enum", "actor", "protocol": return (name, .type, .type)
        // Else it is the modifier of a member.
        case "class" where name.first?.isUppercase == true: return (name, .type, .type)
        case "typealias", "associatedtype": return (name, .type, .other)
        case "extension": return (name, nil, .extension)
        case "func": return (name, .function, .other)
        case "var", "let", "case": return (name, .variable, .other)
        case "init", "subscript", "deinit": return nil
        default: return nil
        }
    }

    private static let modifiers: Set = [
        "public", "package", "internal", "private", "fileprivate", "open", "final", "static", "class", "mutating",
        "nonmutating", "override", "required", "convenience", "indirect", "lazy", "weak", "unowned", "nonisolated",
        "consuming", "borrowing", "prefix", "postfix", "infix",
    ]

    /// True if `private` or `fileprivate` is among the modifiers in front of the keyword at `index`.
    private func isPrivate(at index: Int) -> Bool {
        var index = index - 1
        while true {
            if self[index] == ")", self[index - 2] == "(", Self.modifiers.contains(self[index - 3]) {
                index -= 4  // as in `private(set)`, which hides the setter only
            } else if self[index] == "private" || self[index] == "fileprivate" {
                return true
            } else if Self.modifiers.contains(self[index]) {
                index -= 1
            } else {
                return false
            }
        }
    }
}
