import Testing

/// Which module may know which: arrows point down only. As only the server, the clients and the commands may import
/// SwiftNIO, its types cannot appear in the public API of any other module. What tests and measurements share knows no
/// server.
@Suite struct ImportTests {
    /// The modules that a target imports besides the standard library: all of it, and nothing else.
    private static let allowed: [String: Set<String>] = [
        "AnabranchCore": [],
        // The C library has sine and cosine, for regions of the earth.
        "AnabranchQuery": ["AnabranchCore", "Darwin", "Glibc", "Musl"],
        "AnabranchRules": ["AnabranchCore", "AnabranchQuery", "Foundation"],
        "AnabranchProtocol": ["AnabranchCore", "CZlib"],
        "AnabranchHistory": ["AnabranchCore", "AnabranchQuery", "AnabranchRules", "CZstd", "DequeModule", "Dispatch"],
        "AnabranchHTTP": ["Foundation", "NIOCore", "NIOHTTP1", "NIOPosix", "NIOSSL"],
        "AnabranchFoundation": ["AnabranchCore", "Foundation"],
        "AnabranchExplain": ["AnabranchCore", "AnabranchHistory"],
        "AnabranchPropertyList": ["AnabranchCore"],
        "AnabranchOverTheAir": ["AnabranchCore", "AnabranchPropertyList"],
        "AnabranchOverTheAirDevice": [
            "AnabranchClient", "AnabranchCore", "AnabranchOverTheAir", "AnabranchPropertyList", "Foundation", "GRDB",
        ],
        "AnabranchRealmFile": ["AnabranchCore", "CZlib", "Crypto", "CryptoExtras"],
        "AnabranchReplica": ["AnabranchCore"],
        "AnabranchSimperium": ["AnabranchCore"],
        "AnabranchOverTheAirWire": [
            "AnabranchCore", "AnabranchHistory", "AnabranchOverTheAir", "AnabranchPropertyList", "AnabranchServer",
            "Crypto", "Logging", "NIOHTTP1",
        ],
        "AnabranchSimperiumWire": [
            "AnabranchCore", "AnabranchHistory", "AnabranchServer", "AnabranchSimperium", "Crypto", "Logging",
            "Metrics", "NIOHTTP1",
        ],
        "AnabranchChunks": ["AnabranchCore", "Crypto"],
        "AnabranchFilesWire": [
            "AnabranchChunks", "AnabranchCore", "AnabranchHistory", "AnabranchServer", "Foundation", "Logging",
            "NIOCore", "NIOHTTP1", "NIOPosix",
        ],
        "AnabranchFiles": [
            "AnabranchChunks", "AnabranchClient", "AnabranchCore", "CAttributes", "Crypto", "Dispatch", "Foundation",
            "GRDB",
        ],
        "AnabranchClient": [
            "AnabranchCore", "AnabranchFoundation", "AnabranchHTTP", "AnabranchProtocol", "AnabranchQuery",
            "AnabranchRealmFile", "AnabranchReplica", "AnabranchRows", "CMalloc", "Dispatch", "Foundation", "GRDB",
            "Logging", "NIOCore", "NIOHTTP1", "NIOPosix", "NIOSSL", "NIOWebSocket",
        ],
        "AnabranchCapture": [
            "AnabranchClient", "AnabranchCore", "AnabranchReplica", "GRDBSQLite",
        ],
        "AnabranchPostgresWire": ["CLibPQ", "Foundation"],
        "AnabranchBridge": [
            "AnabranchCapture", "AnabranchClient", "AnabranchCore", "AnabranchPostgresWire", "AnabranchReplica",
        ],
        "AnabranchPostgres": ["AnabranchCore", "AnabranchHistory", "AnabranchPostgresWire", "Crypto", "Foundation"],
        "AnabranchRows": ["AnabranchCore", "Foundation", "GRDB", "GRDBSQLite"],
        "AnabranchSQLite": [
            "AnabranchCore", "AnabranchHistory", "AnabranchRows", "Crypto", "Foundation", "GRDB", "GRDBSQLite",
        ],
        "AnabranchServer": [
            "AnabranchCore", "AnabranchExplain", "AnabranchFoundation", "AnabranchHTTP", "AnabranchProtocol",
            "AnabranchHistory", "AnabranchRules", "Crypto", "CryptoExtras", "Foundation", "Logging", "Metrics",
            "NIOCore",
            "NIOHTTP1", "NIOPosix", "NIOSSL", "NIOWebSocket", "OrderedCollections", "ServiceLifecycle", "Yams",
        ],
        "AnabranchTesting": [
            "AnabranchCore", "AnabranchHistory", "AnabranchQuery", "AnabranchReplica", "CZlib", "CZstd", "Foundation",
        ],
        "AnabranchSimulation": [
            "AnabranchCore", "AnabranchExplain", "AnabranchHistory", "AnabranchProtocol", "AnabranchQuery",
            "AnabranchReplica", "AnabranchRules", "AnabranchServer", "AnabranchTesting", "Foundation",
        ],
        "AnabranchTestClient": [
            "AnabranchCore", "AnabranchHistory", "AnabranchProtocol", "AnabranchTesting", "Foundation", "NIOCore",
            "NIOHTTP1", "NIOPosix", "NIOWebSocket",
        ],
        "AnabranchInspector": [
            "AnabranchCore", "AnabranchExplain", "AnabranchHistory", "AnabranchQuery", "AnabranchServer",
            "CInspectorAssets", "Crypto", "Foundation", "NIOHTTP1", "NIOPosix",
        ],
        "anabranch": [
            "AnabranchBridge", "AnabranchCapture", "AnabranchChunks", "AnabranchFiles", "AnabranchFilesWire",
            "AnabranchClient", "AnabranchCore", "AnabranchExplain", "AnabranchHTTP", "AnabranchHistory",
            "AnabranchInspector", "AnabranchOverTheAirDevice", "AnabranchOverTheAirWire", "AnabranchPostgres",
            "AnabranchPropertyList", "AnabranchProtocol", "AnabranchQuery", "AnabranchRealmFile", "AnabranchReplica",
            "AnabranchRules",
            "AnabranchSQLite",
            "AnabranchServer", "AnabranchSimperiumWire", "ArgumentParser", "CMalloc", "CZlib", "CommandSupport",
            "Foundation", "Logging",
            "NIOCore", "NIOHTTP1", "NIOPosix", "NIOSSL", "ServiceLifecycle", "UnixSignals", "Yams",
        ],
        "anabranch-lab": [
            "AnabranchCapture",
            "AnabranchClient", "AnabranchCore", "AnabranchExplain", "AnabranchProtocol", "AnabranchHistory",
            "AnabranchInspector", "AnabranchRealmFile", "AnabranchReplica", "AnabranchRows", "AnabranchServer",
            "AnabranchSimulation", "AnabranchSQLite",
            "AnabranchTestClient", "AnabranchTesting", "ArgumentParser", "CommandSupport", "CoreFoundation", "Crypto",
            "Foundation", "GRDB", "Logging",
            "NIOCore", "NIOHTTP1", "NIOPosix", "ServiceLifecycle", "UnixSignals",
        ],
        "CommandSupport": ["ArgumentParser", "CBuildInfo", "CoreFoundation", "Foundation"],
        "CAttributes": [],
        "CBuildInfo": [],
        "CInspectorAssets": [],
        "CFaultFiles": [],
        "CLibPQ": [],
        "CMalloc": [],
        "CZlib": [],
        "CZstd": [],
    ]
    private static let standardLibrary: Set = ["Observation", "Swift", "Synchronization"]

    @Test func everyTargetHasARule() throws {
        let targets = try Repository.folders(in: "Sources")
        #expect(!targets.isEmpty)
        #expect(Set(targets) == Set(ImportTests.allowed.keys), "say here what a new target may import")
    }

    @Test func importsKeepTheRules() throws {
        for (target, allowed) in ImportTests.allowed where Repository.exists("Sources/\(target)/") {
            var unused = allowed
            let forbidden = try Repository.files(in: "Sources/\(target)").places { line in
                guard line.contains("import "), let module = ImportTests.importedModule(line),
                    !ImportTests.standardLibrary.contains(module)
                else { return nil }
                unused.remove(module)
                return allowed.contains(module) ? nil : "\(target) must not import \(module)"
            }
            #expect(forbidden.isEmpty, "\(forbidden.listed)")
            #expect(unused.isEmpty, "\(target) does not import \(unused.sorted()): take it out of the list")
        }
    }

    /// A target that is not told what it imports is not built anew when only that has changed.
    @Test func everyImportOfAnotherTargetIsDeclared() throws {
        let targets = try Repository.folders(in: "Sources")
        let modules = Dictionary(uniqueKeysWithValues: targets.map { ($0.replacing("-", with: "_"), $0) })
        let manifest = try TextFile("Package.swift").lines.joined(separator: "\n")
        let declarations = manifest.split(separator: /\.(?:target|testTarget|executableTarget)\(/).dropFirst()
        #expect(declarations.count > targets.count)
        for declaration in declarations {
            let name = try #require(declaration.firstMatch(of: /name: "([\w-]+)"/)).output.1
            let path = declaration.firstMatch(of: /path: "([^"]+)"/).map { String($0.output.1) }
            let folder = path ?? (Repository.exists("Sources/\(name)/") ? "Sources/\(name)" : "Tests/\(name)")
            let undeclared = try Repository.files(in: folder).places { line in
                guard line.contains("import "), let module = ImportTests.importedModule(line),
                    let target = modules[module], !declaration.contains("\"\(target)\"")
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
