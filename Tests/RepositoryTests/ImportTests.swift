import Testing

/// Which module may know which: arrows point down only. As only the server and the command may import SwiftNIO, its
/// types cannot appear in the public API of any other module.
@Suite struct ImportTests {
    /// What a target may import beside the standard library.
    private static let allowed: [String: Set<String>] = [
        "AnabranchCore": collections,
        "AnabranchProtocol": ["AnabranchCore", "CZlib"],
        "AnabranchHistory": collections.union(["AnabranchCore", "CZstd"]),
        "AnabranchSQLite": ["AnabranchCore", "AnabranchHistory", "Foundation", "GRDB"],
        "AnabranchServer": nio.union([
            "AnabranchCore", "AnabranchProtocol", "AnabranchHistory", "Crypto", "CryptoExtras", "Foundation", "JWTKit",
            "Logging", "Metrics", "NIOSSL", "ServiceLifecycle", "Yams",
        ]),
        "anabranch": nio.union([
            "AnabranchCore", "AnabranchProtocol", "AnabranchHistory", "AnabranchSQLite", "AnabranchServer",
            "ArgumentParser", "CZlib", "CZstd", "Crypto", "Foundation", "Logging", "Metrics", "NIOSSL",
            "ServiceLifecycle", "Yams",
        ]),
        "CZlib": [],
        "CZstd": [],
    ]
    private static let standardLibrary: Set = ["Swift", "Synchronization"]
    private static let collections: Set = [
        "BasicContainers", "BitCollections", "Collections", "DequeModule", "HashTreeCollections", "HeapModule",
        "OrderedCollections",
    ]
    private static let nio: Set = [
        "NIOConcurrencyHelpers", "NIOCore", "NIOExtras", "NIOHTTP1", "NIOPosix", "NIOWebSocket",
    ]

    @Test func everyTargetHasARule() throws {
        let targets = try Repository.folders(in: "Sources")
        #expect(!targets.isEmpty)
        #expect(Set(targets) == Set(ImportTests.allowed.keys), "say here what a new target may import")
    }

    @Test func importsKeepTheRules() throws {
        for (target, allowed) in ImportTests.allowed where Repository.exists("Sources/\(target)/") {
            let forbidden = try Repository.files(in: "Sources/\(target)").places { line in
                guard line.contains("import "), let module = ImportTests.importedModule(line) else { return nil }
                let isAllowed = allowed.contains(module) || ImportTests.standardLibrary.contains(module)
                return isAllowed ? nil : "\(target) must not import \(module)"
            }
            #expect(forbidden.isEmpty, "\(forbidden.listed)")
        }
    }

    /// A target that is not told what it imports is not built anew when only that has changed.
    @Test func everyImportOfAnotherTargetIsDeclared() throws {
        let targets = Set(try Repository.folders(in: "Sources"))
        let manifest = try TextFile("Package.swift").lines.joined(separator: "\n")
        let declarations = manifest.split(separator: /\.(?:target|testTarget|executableTarget)\(/).dropFirst()
        #expect(declarations.count > targets.count)
        for declaration in declarations {
            let name = try #require(declaration.firstMatch(of: /name: "(\w+)"/)).output.1
            let folder = Repository.exists("Sources/\(name)/") ? "Sources/\(name)" : "Tests/\(name)"
            let undeclared = try Repository.files(in: folder).places { line in
                guard line.contains("import "), let module = ImportTests.importedModule(line), targets.contains(module),
                    !declaration.contains("\"\(module)\"")
                else { return nil }
                return "\(name) imports \(module)"
            }
            #expect(undeclared.isEmpty, "\(undeclared.listed)")
        }
    }

    @Test(arguments: [
        ("import NIOCore", "NIOCore"), ("@preconcurrency public import GRDB", "GRDB"),
        ("  @_spi(Testing) import struct Foundation.Data", "Foundation"),
        ("@testable import AnabranchCore", "AnabranchCore"),
    ])
    func everyFormOfImportIsSeen(line: String, module: String) {
        #expect(ImportTests.importedModule(line) == module)
    }

    @Test(arguments: ["// import NIOCore", "let text = \"import NIOCore\"", "important(NIOCore)"])
    func otherLinesAreNoImports(line: String) {
        #expect(ImportTests.importedModule(line) == nil)
    }

    private static func importedModule(_ line: String) -> String? {
        let attributes = /\s*(?:@\w+(?:\([^)]*\))?\s+)*/
        let access = /(?:(?:public|package|internal|fileprivate|private)\s+)?/
        let kind = /(?:(?:struct|class|enum|protocol|func|var|let|typealias|actor)\s+)?/
        guard let start = line.prefixMatch(of: attributes)?.range.upperBound else { return nil }
        guard let keyword = line[start...].prefixMatch(of: access)?.range.upperBound,
            let match = line[keyword...].prefixMatch(of: /import\s+/),
            let name = line[match.range.upperBound...].prefixMatch(of: kind)?.range.upperBound
        else { return nil }
        return line[name...].prefixMatch(of: /\w+/).map { String($0.output) }
    }
}
