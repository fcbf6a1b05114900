// swift-tools-version: 6.2
import PackageDescription

/// The project's own scripts set it: warnings are errors there, and never for those who depend on the package.
let isStrict = Context.environment["ANABRANCH_STRICT"] != nil

/// What the commands say that they were built from. Only the environment tells: asking git at each build would make
/// builds differ that have the same sources.
let commit = Context.environment["ANABRANCH_COMMIT"] ?? "unknown"

/// The parts that reach PostgreSQL are there under the package trait `Postgres`, and in what the project's own scripts
/// build. Their sources are compiled where `CLibPQ` can be imported, so that no other module gets other flags.
let postgres: TargetDependencyCondition? = isStrict ? nil : .when(traits: ["Postgres"])

/// What the next version of the language does without being asked.
let upcomingFeatures = ["ExistentialAny", "InternalImportsByDefault", "MemberImportVisibility"]

let package = Package(
    name: "anabranch",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "AnabranchCore", targets: ["AnabranchCore"]),
        .library(name: "AnabranchQuery", targets: ["AnabranchQuery"]),
        .library(name: "AnabranchProtocol", targets: ["AnabranchProtocol"]),
        .library(name: "AnabranchHistory", targets: ["AnabranchHistory"]),
        .library(name: "AnabranchExplain", targets: ["AnabranchExplain"]),
        .library(name: "AnabranchSQLite", targets: ["AnabranchSQLite"]),
        .library(name: "AnabranchPropertyList", targets: ["AnabranchPropertyList"]),
        .library(name: "AnabranchRealmFile", targets: ["AnabranchRealmFile"]),
        .library(name: "AnabranchServer", targets: ["AnabranchServer"]),
        .library(name: "AnabranchReplica", targets: ["AnabranchReplica"]),
        .library(name: "AnabranchClient", targets: ["AnabranchClient"]),
        .library(name: "AnabranchCapture", targets: ["AnabranchCapture"]),
        .library(name: "AnabranchFiles", targets: ["AnabranchFiles"]),
        .library(name: "AnabranchBridge", targets: ["AnabranchBridge"]),
        .library(name: "AnabranchPostgres", targets: ["AnabranchPostgres"]),
        .library(name: "AnabranchOverTheAirDevice", targets: ["AnabranchOverTheAirDevice"]),
        .library(name: "AnabranchTestClient", targets: ["AnabranchTestClient"]),
        .executable(name: "anabranch", targets: ["anabranch"]),
        .executable(name: "anabranch-lab", targets: ["anabranch-lab"]),
        // For `Benchmarks`, which is a package of its own. Nobody else may count on it.
        .library(name: "_AnabranchTesting", targets: ["AnabranchTesting"]),
    ],
    traits: [
        .trait(
            name: "Postgres",
            description: "A store in PostgreSQL, and bridges to it; needs libpq and its header (libpq-dev).")
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .systemLibrary(name: "CAttributes"),
        .systemLibrary(name: "CLibPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev"]), .brew(["libpq"])]),
        .systemLibrary(name: "CMalloc"),
        .systemLibrary(name: "CZlib"),
        .systemLibrary(name: "CZstd"),
        .target(name: "CBuildInfo", cSettings: [.define("ANABRANCH_COMMIT", to: "\"\(commit)\"")]),
        // What the inspector's browsers get.
        .target(name: "CInspectorAssets"),
        // SQLite on a disk that fails, for tests.
        .target(name: "CFaultFiles", linkerSettings: [.linkedLibrary("sqlite3")]),
        .target(name: "AnabranchCore", exclude: ["Merge/README.md"]),
        .target(name: "AnabranchQuery", dependencies: ["AnabranchCore"]),
        .target(name: "AnabranchRules", dependencies: ["AnabranchCore", "AnabranchQuery"]),
        .target(name: "AnabranchProtocol", dependencies: ["AnabranchCore", "CZlib"]),
        .target(
            name: "AnabranchHistory",
            dependencies: [
                "AnabranchCore", "AnabranchQuery", "AnabranchRules", "CZstd",
                .product(name: "DequeModule", package: "swift-collections"),
            ]),
        .target(
            name: "AnabranchRows",
            dependencies: [
                "AnabranchCore", .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ]),
        .target(
            name: "AnabranchHTTP",
            dependencies: [
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ]),
        .target(name: "AnabranchFoundation", dependencies: ["AnabranchCore"]),
        .target(name: "AnabranchPropertyList", dependencies: ["AnabranchCore"]),
        .target(name: "AnabranchOverTheAir", dependencies: ["AnabranchCore", "AnabranchPropertyList"]),
        .target(
            name: "AnabranchRealmFile",
            dependencies: [
                "AnabranchCore", "CZlib",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ]),
        .target(name: "AnabranchReplica", dependencies: ["AnabranchCore"]),
        .target(name: "AnabranchSimperium", dependencies: ["AnabranchCore"]),
        .target(
            name: "AnabranchClient",
            dependencies: [
                "AnabranchCore", "AnabranchFoundation", "AnabranchHTTP", "AnabranchProtocol", "AnabranchQuery",
                "AnabranchRealmFile", "AnabranchReplica", "AnabranchRows", "CMalloc",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ]),
        .target(
            name: "AnabranchCapture",
            dependencies: [
                "AnabranchClient", "AnabranchCore", "AnabranchReplica",
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ]),
        .target(
            name: "AnabranchPostgresWire", dependencies: [.byName(name: "CLibPQ", condition: postgres)]),
        .target(
            name: "AnabranchBridge",
            dependencies: [
                "AnabranchCapture", "AnabranchClient", "AnabranchCore", "AnabranchPostgresWire", "AnabranchReplica",
            ]),
        .target(
            name: "AnabranchSQLite",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchRows",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ]),
        .target(
            name: "AnabranchPostgres",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchPostgresWire",
                .product(name: "Crypto", package: "swift-crypto"),
            ]),
        .target(name: "AnabranchExplain", dependencies: ["AnabranchCore", "AnabranchHistory"]),
        .target(
            name: "AnabranchServer",
            dependencies: [
                "AnabranchCore", "AnabranchExplain", "AnabranchFoundation", "AnabranchHTTP", "AnabranchProtocol",
                "AnabranchHistory", "AnabranchRules",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "OrderedCollections", package: "swift-collections"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "Yams", package: "Yams"),
            ]),
        .target(
            name: "AnabranchSimperiumWire",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchServer", "AnabranchSimperium",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ]),
        .target(
            name: "AnabranchOverTheAirWire",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchOverTheAir", "AnabranchPropertyList", "AnabranchServer",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ]),
        .target(
            name: "AnabranchChunks",
            dependencies: ["AnabranchCore", .product(name: "Crypto", package: "swift-crypto")]),
        .target(
            name: "AnabranchFilesWire",
            dependencies: [
                "AnabranchChunks", "AnabranchCore", "AnabranchHistory", "AnabranchServer",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]),
        .target(
            name: "AnabranchFiles",
            dependencies: [
                "AnabranchChunks", "AnabranchClient", "AnabranchCore", "CAttributes",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ]),
        .target(
            name: "AnabranchOverTheAirDevice",
            dependencies: [
                "AnabranchClient", "AnabranchCore", "AnabranchOverTheAir", "AnabranchPropertyList",
                .product(name: "GRDB", package: "GRDB.swift"),
            ]),
        .target(
            name: "AnabranchInspector",
            dependencies: [
                "AnabranchCore", "AnabranchExplain", "AnabranchHistory", "AnabranchQuery", "AnabranchServer",
                "CInspectorAssets",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            exclude: ["Assets"]),
        .target(
            name: "AnabranchTesting",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchQuery", "AnabranchReplica", "CZlib", "CZstd",
            ]),
        .target(
            name: "AnabranchSimulation",
            dependencies: [
                "AnabranchCore", "AnabranchExplain", "AnabranchHistory", "AnabranchProtocol", "AnabranchQuery",
                "AnabranchReplica", "AnabranchRules", "AnabranchServer", "AnabranchTesting",
            ]),
        .target(
            name: "AnabranchTestClient",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchProtocol", "AnabranchTesting",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ]),
        .target(
            name: "CommandSupport",
            dependencies: ["CBuildInfo", .product(name: "ArgumentParser", package: "swift-argument-parser")]),
        .executableTarget(
            name: "anabranch",
            dependencies: [
                "AnabranchBridge", "AnabranchCapture", "AnabranchChunks", "AnabranchFiles", "AnabranchFilesWire",
                "AnabranchClient", "AnabranchCore", "AnabranchHTTP", "AnabranchHistory", "AnabranchProtocol",
                "AnabranchExplain", "AnabranchInspector", "AnabranchOverTheAirDevice", "AnabranchOverTheAirWire",
                "AnabranchPostgres", "AnabranchPropertyList", "AnabranchQuery", "AnabranchRealmFile",
                "AnabranchReplica", "AnabranchRules", "AnabranchSQLite", "AnabranchServer", "AnabranchSimperiumWire",
                "CMalloc", "CZlib", "CommandSupport",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                .product(name: "Yams", package: "Yams"),
            ]),
        .executableTarget(
            name: "anabranch-lab",
            dependencies: [
                "AnabranchCapture",
                "AnabranchClient", "AnabranchCore", "AnabranchExplain", "AnabranchProtocol", "AnabranchHistory",
                "AnabranchInspector", "AnabranchRealmFile", "AnabranchReplica", "AnabranchRows", "AnabranchServer",
                "AnabranchSimulation", "AnabranchSQLite", "AnabranchTestClient", "AnabranchTesting", "CommandSupport",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ]),
        .testTarget(name: "AnabranchCoreTests", dependencies: ["AnabranchCore", "AnabranchTesting"]),
        .testTarget(
            name: "AnabranchQueryTests", dependencies: ["AnabranchCore", "AnabranchQuery", "AnabranchTesting"],
            exclude: ["Models"]),
        .testTarget(
            name: "AnabranchRulesTests",
            dependencies: ["AnabranchCore", "AnabranchQuery", "AnabranchRules", "AnabranchTesting"],
            exclude: ["Export"]),
        .testTarget(
            name: "AnabranchProtocolTests",
            dependencies: ["AnabranchCore", "AnabranchProtocol", "AnabranchSimulation", "AnabranchTesting"]),
        .testTarget(
            name: "AnabranchHistoryTests",
            dependencies: [
                "AnabranchCore", "AnabranchExplain", "AnabranchHistory", "AnabranchPostgres", "AnabranchPostgresWire",
                "AnabranchReplica", "AnabranchRows", "AnabranchRules", "AnabranchSimulation", "AnabranchSQLite",
                "AnabranchTesting", "CFaultFiles",
                .product(name: "GRDB", package: "GRDB.swift"),
            ]),
        .testTarget(
            name: "AnabranchClientTests",
            dependencies: [
                "AnabranchCore", "AnabranchClient", "AnabranchHistory", "AnabranchHTTP", "AnabranchProtocol",
                "AnabranchQuery", "AnabranchReplica", "AnabranchServer", "AnabranchTesting", "CFaultFiles",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ]),
        .testTarget(
            name: "AnabranchCaptureTests",
            dependencies: [
                "AnabranchCapture", "AnabranchClient", "AnabranchCore", "AnabranchHistory", "AnabranchReplica",
                "AnabranchServer", "AnabranchTesting",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
            ]),
        .testTarget(
            name: "AnabranchBridgeTests",
            dependencies: [
                "AnabranchBridge", "AnabranchCapture", "AnabranchClient", "AnabranchCore", "AnabranchHistory",
                "AnabranchPostgresWire", "AnabranchServer", "AnabranchTesting", "anabranch",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
            ]),
        .testTarget(
            name: "AnabranchServerTests",
            dependencies: [
                "AnabranchCore", "AnabranchExplain", "AnabranchProtocol", "AnabranchHistory", "AnabranchRules",
                "AnabranchServer", "AnabranchSQLite", "AnabranchSimulation", "AnabranchTestClient", "AnabranchTesting",
                "CZlib",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ],
            exclude: ["Models", "Transcripts"]),
        .testTarget(
            name: "AnabranchInspectorTests",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchInspector", "AnabranchServer", "AnabranchTesting",
                "anabranch",
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ]),
        .testTarget(
            name: "AnabranchReplicaTests",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchProtocol", "AnabranchReplica", "AnabranchTesting",
            ]),
        .testTarget(
            name: "AnabranchOverTheAirTests",
            dependencies: ["AnabranchCore", "AnabranchOverTheAir", "AnabranchPropertyList"]),
        .testTarget(
            name: "AnabranchOverTheAirWireTests",
            dependencies: [
                "AnabranchClient", "AnabranchCore", "AnabranchHistory", "AnabranchOverTheAir",
                "AnabranchOverTheAirDevice", "AnabranchOverTheAirWire",
                "AnabranchPropertyList", "AnabranchServer", "AnabranchSQLite", "AnabranchTestClient",
                "AnabranchTesting",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ]),
        .testTarget(
            name: "AnabranchPropertyListTests", dependencies: ["AnabranchPropertyList", "AnabranchTesting"],
            exclude: ["Tools/Programs"]),
        .testTarget(
            name: "AnabranchRealmFileTests",
            dependencies: ["AnabranchCore", "AnabranchRealmFile", "AnabranchTesting"]),
        .testTarget(
            name: "AnabranchSimperiumTests", dependencies: ["AnabranchCore", "AnabranchSimperium", "AnabranchTesting"],
            exclude: ["Programs"]),
        .testTarget(
            name: "AnabranchSimperiumWireTests",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchServer", "AnabranchSimperium", "AnabranchSimperiumWire",
                "AnabranchProtocol", "AnabranchSQLite", "AnabranchSimulation", "AnabranchTestClient",
                "AnabranchTesting",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            exclude: ["Transcripts"]),
        .testTarget(
            name: "AnabranchFilesTests",
            dependencies: [
                "AnabranchChunks", "AnabranchClient", "AnabranchCore", "AnabranchFiles", "AnabranchFilesWire",
                "AnabranchHistory", "AnabranchServer", "AnabranchSQLite", "AnabranchTesting",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ]),
        .testTarget(
            name: "AnabranchTestingTests", dependencies: ["AnabranchCore", "AnabranchTesting"]),
        .testTarget(
            name: "CommandTests",
            dependencies: [
                "AnabranchCore", "AnabranchExplain", "AnabranchHistory", "AnabranchProtocol", "AnabranchRules",
                "AnabranchOverTheAirWire", "AnabranchSQLite", "AnabranchServer", "AnabranchSimperiumWire",
                "AnabranchTesting", "CommandSupport", "anabranch", "anabranch-lab",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]),
        .testTarget(
            name: "LabTests",
            dependencies: [
                "AnabranchCore", "AnabranchProtocol", "AnabranchTestClient", "AnabranchTesting", "anabranch",
                "anabranch-lab",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]),
        .testTarget(
            name: "CompatibilityTests",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchSQLite", "AnabranchTesting", "anabranch",
                "anabranch-lab",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ]),
        .testTarget(
            name: "FuzzTests",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchOverTheAir", "AnabranchPropertyList",
                "AnabranchProtocol", "AnabranchRealmFile", "AnabranchRules", "AnabranchSimperium",
                "AnabranchSimperiumWire", "AnabranchTesting",
            ]),
        .testTarget(name: "RepositoryTests", exclude: ["PublicSymbols", "RetiredWords.md"]),
        .testTarget(
            name: "TutorialTests",
            dependencies: [
                "AnabranchClient", "AnabranchCore", "AnabranchHistory", "AnabranchProtocol", "AnabranchServer",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
            ]),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets where target.type != .system {
    target.swiftSettings =
        (target.swiftSettings ?? []) + upcomingFeatures.map { .enableUpcomingFeature($0) }
        + (isStrict ? [.treatAllWarnings(as: .error)] : [])
}

// The examples are packages of their own. The project's own scripts compile them here, against what they have built
// anyway, and nobody who depends on the package sees them. They are understood as in their own packages.
if isStrict {
    package.targets += [
        .executableTarget(
            name: "FilesMirror", dependencies: ["AnabranchClient", "AnabranchFiles"],
            path: "Examples/Files/Sources/FilesMirror", swiftSettings: [.treatAllWarnings(as: .error)]),
        .executableTarget(
            name: "MergeTool", dependencies: ["AnabranchCore"], path: "Examples/MergeTool/Sources/MergeTool",
            swiftSettings: [.treatAllWarnings(as: .error)]),
        .executableTarget(
            name: "NotesServer",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchSQLite", "AnabranchServer",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            path: "Examples/NotesServer/Sources/NotesServer", swiftSettings: [.treatAllWarnings(as: .error)]),
        .testTarget(
            name: "NotesServerTests",
            dependencies: [
                "AnabranchClient", "AnabranchCore", "AnabranchHistory", "AnabranchServer", "AnabranchTestClient",
                "NotesServer",
            ],
            path: "Examples/NotesServer/Tests/NotesServerTests", swiftSettings: [.treatAllWarnings(as: .error)]),
        .executableTarget(
            name: "ServerFunction",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchSQLite", "AnabranchServer",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            path: "Examples/ServerFunction/Sources/ServerFunction", swiftSettings: [.treatAllWarnings(as: .error)]),
        .testTarget(
            name: "ServerFunctionTests", dependencies: ["AnabranchClient", "AnabranchHistory", "ServerFunction"],
            path: "Examples/ServerFunction/Tests/ServerFunctionTests", swiftSettings: [.treatAllWarnings(as: .error)]),
        .executableTarget(
            name: "Tasks", dependencies: ["AnabranchClient"], path: "Examples/Tasks/Sources/Tasks",
            swiftSettings: [.treatAllWarnings(as: .error)]),
        .testTarget(
            name: "TasksTests", dependencies: ["AnabranchHistory", "AnabranchServer", "Tasks"],
            path: "Examples/Tasks/Tests/TasksTests", swiftSettings: [.treatAllWarnings(as: .error)]),
    ]
}

// What tests take long for happens in the libraries, the commands and the server: compiled without optimization, the
// tests themselves are ready sooner and run no longer.
if isStrict {
    for target in package.targets where target.type == .test {
        target.swiftSettings = (target.swiftSettings ?? []) + [.unsafeFlags(["-Onone"])]
    }
}
