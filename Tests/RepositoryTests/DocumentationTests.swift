import Testing

/// What is public has a documentation comment: its meaning, and as far as they are not obvious its unit, its range, the
/// errors and the chapter of the specification.
///
/// Counted are the declarations that are `public` or `open`, the requirements of public protocols, and the cases of
/// public enums. One comment may stand for all lines of cases that follow it. A member of an extension that declares a
/// conformance needs none: the requirement has it.
@Suite struct DocumentationTests {
    @Test(arguments: [
        "AnabranchCore", "AnabranchQuery", "AnabranchRules", "AnabranchProtocol", "AnabranchHistory", "AnabranchSQLite",
        "AnabranchExplain", "AnabranchInspector", "AnabranchPropertyList", "AnabranchRealmFile", "AnabranchReplica",
        "AnabranchClient", "AnabranchCapture", "AnabranchBridge", "AnabranchPostgres", "AnabranchServer",
        "AnabranchSimulation", "AnabranchTestClient", "AnabranchTesting",
    ])
    func whatIsPublicIsDocumented(module: String) throws {
        var places: [String] = []
        for file in try Repository.files(in: "Sources/\(module)") {
            places += PublicDeclarations(file.lines).undocumented.map { index in
                "\(file.path):\(index + 1): \(file.lines[index].drop { $0 == " " })"
            }
        }
        #expect(places.isEmpty, "without a comment: \(places.listed)")
    }

    @Test(arguments: [
        "public struct A {}", "  @frozen public enum A { }", "public protocol P {}", "public typealias A = Int",
        "public private(set) var a = 1", "public static func f() {}", "@discardableResult public func f() {}",
        "public init() {}", "public subscript(a: Int) -> Int { a }", "open class A {}", "public final class A {}",
    ])
    func everyFormOfDeclarationIsSeen(line: String) {
        #expect(PublicDeclarations([line]).undocumented == [0])
        #expect(PublicDeclarations(["/// Says what it is.", line]).undocumented == [])
        #expect(PublicDeclarations(["/// Says what it is.", "@inlinable", line]).undocumented == [])
    }

    @Test(arguments: [
        "public import Foundation", "struct A {}", "package func f() {}", "public extension A {}",
        "// public struct A {}", "let text = \"public struct A {}\"", "case .public: break",
    ])
    func otherLinesAreNoPublicDeclarations(line: String) {
        #expect(PublicDeclarations([line]).undocumented == [])
    }

    @Test func membersCountAsFarAsTheyArePublic() {
        let source = """
            /// A.
            public protocol A {
                func f()
                /// G.
                func g()
                static var h: Int { get }
            }
            /// E.
            public enum E {
                case a
                /// Both.
                case b
                case c
                func f() {
                    switch self {
                    case .a: break
                    }
                }
            }
            enum Hidden { case a }
            extension E:
                Sendable
            {
                public var a: Int { 1 }
            }
            extension E {
                public var a: Int { 1 }
            }
            extension A where Self: B {
                public var a: Int { 1 }
            }
            """
        let lines = source.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        #expect(PublicDeclarations(lines).undocumented.map { $0 + 1 } == [3, 6, 10, 27, 30])
    }
}

/// Finds the public declarations of a file, one line after the other.
private struct PublicDeclarations {
    /// The indices of the lines that declare something without a comment.
    private(set) var undocumented: [Int] = []
    private var scopes: [Scope] = []
    /// The header of a type or extension whose brace has not opened yet.
    private var header: String?
    private var isDocumented = false
    private let patterns = Patterns()

    /// A regex is compiled where it stands, which takes longer than most lines of source do.
    private struct Patterns {
        let attribute = /^@\w+(?:\([^)]*\))?\s*$/
        let type = /^(?:@?\w+\s+)*(?:protocol|enum|extension|struct|class|actor)\s+[A-Z]/
        let requirement = /^(?:(?:static|mutating)\s+)*(?:func|var|init|subscript|associatedtype)\b/
        let access = /^(?:@\w+(?:\([^)]*\))?\s+)*(?:public|open)\s+/
        let kind = /\b(?:struct|class|enum|protocol|actor|typealias|func|var|let|init|subscript)\b/
    }

    private enum Scope {
        /// The body of a public protocol, of a public enum, of an extension that declares a conformance, of anything
        /// else.
        case requirements, cases, witnesses, other
    }

    init(_ lines: [String]) {
        for (index, line) in lines.enumerated() { read(line, index) }
    }

    private mutating func read(_ line: String, _ index: Int) {
        let code = line.withoutLiteralsAndComment
        let words = code.drop { $0 == " " }
        if line.drop(while: { $0 == " " }).hasPrefix("///") { return isDocumented = true }
        if words.isEmpty { return isDocumented = false }
        if words.contains(patterns.attribute) { return }
        if isDeclaration(words), !isDocumented { undocumented.append(index) }
        // The comment of a case stands for the cases in the lines below.
        isDocumented = isDocumented && scopes.last == .cases && words.hasPrefix("case ")
        if words.contains(patterns.type) { header = "" }
        for character in code { step(character) }
    }

    private func isDeclaration(_ words: Substring) -> Bool {
        switch scopes.last {
        case .requirements?:
            return words.contains(patterns.requirement)
        case .cases? where words.hasPrefix("case "): return true
        case .witnesses?: return false
        default: break
        }
        guard let start = words.prefixMatch(of: patterns.access)?.range.upperBound else { return false }
        let rest = words[start...]
        return rest.contains(patterns.kind) && !rest.hasPrefix("import ") && !rest.hasPrefix("extension ")
    }

    private mutating func step(_ character: Character) {
        switch character {
        case "{":
            scopes.append(Self.scope(header))
            header = nil
        case "}":
            scopes = scopes.dropLast()
        default:
            header?.append(character)
        }
    }

    private static func scope(_ header: String?) -> Scope {
        guard let header else { return .other }
        if header.contains(/\bpublic\s+protocol\s/) { return .requirements }
        if header.contains(/\bpublic\s+(?:indirect\s+)?enum\s/) { return .cases }
        if header.contains(/^\s*(?:@\w+\s+)*extension\s+[\w.<>]+\s*:/) { return .witnesses }
        return .other
    }
}
