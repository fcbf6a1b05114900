import Testing

/// In a module whose folders have an order, the files of a folder use what is in their own folder and in those below
/// it. So the tree shows in which direction the module is to be read, and a folder can be understood without those
/// above it.
@Suite struct FolderTests {
    /// The folders of modules, from the top down. A name may be a path, as `Merge/Rules`.
    private static let orders: [String: [String]] = [
        "AnabranchServer": [
            "Machine", "Listener", "Embedding", "Admin", "AppServices", "HTTP", "Handshake", "Connection", "Files",
            "Tokens", "Permissions", "Settings", "Proxies", "Limits", "Logging",
        ],
        "AnabranchQuery": [
            "FlexibleSync", "Query", "Printing", "Evaluation", "Binding", "Values", "Objects", "Syntax",
        ],
        "AnabranchRules": ["App", "Documents", "Rules", "Expressions", "Support"],
    ]

    @Test(arguments: orders.keys.sorted()) func arrowsPointDown(module: String) throws {
        let folders = try #require(FolderTests.orders[module])
        let sources = try Repository.files(in: "Sources/\(module)").map { SwiftSource(path: $0.path, text: $0.text) }
        let arrows = FolderArrows(sources, folders: folders.map { "Sources/\(module)/\($0)" })
        #expect(arrows.definitionCount > 30)
        #expect(arrows.filesElsewhere.isEmpty, "in no folder that the order names: \(arrows.filesElsewhere.listed)")
        #expect(arrows.pointingUp.isEmpty, "\(arrows.pointingUp.listed)")
    }

    /// The table says the order, and for which folder a reader has to look.
    @Test func theChapterOnTheServerHasTheSameFolders() throws {
        let rows = try TextFile("Spec/Server.md").lines.prefix { !$0.hasPrefix("## 2.") }
            .compactMap { $0.firstMatch(of: /^\| `(\w+)` \|/).map { String($0.output.1) } }
        #expect(rows == FolderTests.orders["AnabranchServer"])
    }

    private static func arrows(_ top: String, _ bottom: String) -> [String] {
        let sources = [("M/Top/T.swift", top), ("M/Bottom/B.swift", bottom)].map(SwiftSource.init)
        return FolderArrows(sources, folders: ["M/Top", "M/Bottom"]).pointingUp
    }

    @Test(arguments: [
        ("struct Up {}", "let x: Up"), ("public final class Up {}", "func f(_ up: [Up]) {}"),
        ("enum Up { case a }", "let x = 1\nlet y = Up.a"), ("protocol Up {}", "struct B: Up {}"),
        ("typealias Up = Int", "let text = \"\\(Up.max)\""), ("func Up() {}", "let x = Up()"),
        ("let Up = 1", "let x = Up + 1"), ("extension Int { func Up() {} }", "let x = 1.Up()"),
        ("extension [Int] { var Up: Int { 1 } }", "let x = [1].Up"), ("struct Up {}", "extension Up {}"),
    ])
    func anArrowUpIsSeen(top: String, bottom: String) throws {
        let place = "M/Bottom/B.swift:\(bottom.split(separator: "\n").count)"
        #expect(FolderTests.arrows(top, bottom) == ["\(place): Up is declared in M/Top, above M/Bottom"])
    }

    @Test(arguments: [
        ("let x: Down", "struct Down {}"), ("struct Up {}", "// an Up\nlet x = \"Up\" /* Up */"),
        ("private struct Up {}", "struct B { let Up: Int }"), ("struct T { struct Up {} }", "let x = B.Up()"),
        ("struct T { func up() {} }", "struct B { func up() {} }\nlet x = B().up()"),
        ("extension Int { func up() {} }", "struct B { func up() {} }\nlet x = B().up()"),
        ("func f() { let up = 1 }", "let x = up"), ("struct Up {}", "let x = #\"Up \\(Up) \"Up\" \"#"),
    ])
    func nothingElseIs(top: String, bottom: String) {
        #expect(FolderTests.arrows(top, bottom).isEmpty)
    }
}

/// Which folder uses which, found by names: types, functions and variables of a file, and members that an extension
/// adds to a type of another folder or module. Functions, variables and members count only if nothing in another folder
/// has their name.
private struct FolderArrows {
    /// From the top down.
    private let folders: [String]
    private let sources: [SwiftSource]
    /// The folders of what can be used by its name alone, and of members that are used after a dot.
    private var names: [String: String] = [:]
    private var members: [String: String] = [:]

    init(_ sources: [SwiftSource], folders: [String]) {
        self.sources = sources
        self.folders = folders
        let declarations = sources.map { (folder: folder(of: $0.path), declared: $0.declarations()) }
        let all = declarations.flatMap { file in file.declared.map { (folder: file.folder, $0) } }
        let foldersOfName = Dictionary(grouping: all) { $0.1.name }.mapValues { Set($0.map(\.folder)) }
        let ownTypes = Dictionary(grouping: all.filter { $0.1.scopes.isEmpty && $0.1.kind == .type }) { $0.1.name }
        for case let (folder?, declaration) in all where !declaration.isPrivate {
            if declaration.scopes.isEmpty, declaration.kind == .type || foldersOfName[declaration.name]?.count == 1 {
                names[declaration.name] = folder
            }
            guard declaration.scopes.count == 1, let scope = declaration.scopes.first, scope.kind == .extension,
                foldersOfName[declaration.name]?.count == 1,
                ownTypes[scope.name]?.allSatisfy({ $0.folder == folder }) != true
            else { continue }
            members[declaration.name] = folder
        }
    }

    var definitionCount: Int { names.count + members.count }

    /// The files that are in none of the folders.
    var filesElsewhere: [String] { sources.map(\.path).filter { folder(of: $0) == nil } }

    /// Each use of a name that is declared in a folder above, as "path:line: …".
    var pointingUp: [String] {
        sources.flatMap { source -> [String] in
            guard let folder = folder(of: source.path), let level = folders.firstIndex(of: folder) else { return [] }
            let own = Set(source.declarations().map(\.name))
            return source.tokens.indices.compactMap { index in
                let name = source[index]
                guard let target = source[index - 1] == "." ? members[name] : names[name], !own.contains(name),
                    let targetLevel = folders.firstIndex(of: target), targetLevel < level
                else { return nil }
                return "\(source.path):\(source.tokens[index].line): \(name) is declared in \(target), above \(folder)"
            }
        }
    }

    /// The innermost of the folders that a file is in.
    private func folder(of path: String) -> String? {
        folders.filter { path.hasPrefix($0 + "/") }.max { $0.count < $1.count }
    }
}
