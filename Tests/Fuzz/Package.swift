// swift-tools-version: 6.2
import PackageDescription

/// As in the Package.swift of the whole.
let upcomingFeatures = ["ExistentialAny", "InternalImportsByDefault", "MemberImportVisibility"]

/// What scripts/fuzz builds in a folder of its own, for libFuzzer. Sources are copied beside it.
let package = Package(
    name: "fuzz",
    platforms: [.macOS(.v15)],
    dependencies: [.package(url: "https://github.com/apple/swift-collections", from: "1.6.0")],
    targets: [
        .systemLibrary(name: "CZlib"),
        .systemLibrary(name: "CZstd"),
        .target(name: "AnabranchCore", exclude: ["Merge/README.md"]),
        .target(name: "AnabranchQuery", dependencies: ["AnabranchCore"]),
        .target(name: "AnabranchRules", dependencies: ["AnabranchCore", "AnabranchQuery"]),
        .target(name: "AnabranchProtocol", dependencies: ["AnabranchCore", "CZlib"]),
        .target(
            name: "AnabranchHistory",
            dependencies: [
                "AnabranchCore", "AnabranchQuery", "AnabranchRules", "CZstd",
                .product(name: "DequeModule", package: "swift-collections"),
            ], swiftSettings: [.unsafeFlags(["-enable-testing"])]),
        .target(name: "AnabranchPropertyList", dependencies: ["AnabranchCore"]),
        .target(name: "AnabranchOverTheAir", dependencies: ["AnabranchCore", "AnabranchPropertyList"]),
        .target(name: "AnabranchRealmFile", dependencies: ["AnabranchCore", "CZlib"]),
        .target(name: "AnabranchReplica", dependencies: ["AnabranchCore"]),
        .target(
            name: "AnabranchTesting",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchQuery", "AnabranchReplica", "CZlib", "CZstd",
            ]),
        .target(name: "AnabranchSimperium", dependencies: ["AnabranchCore"]),
        // Without what needs a server. The hash, of which only the names of classes are made, is another one.
        .target(name: "Crypto"),
        .target(
            name: "AnabranchSimperiumWire",
            dependencies: ["AnabranchCore", "AnabranchHistory", "AnabranchSimperium", "Crypto"],
            swiftSettings: [.unsafeFlags(["-enable-testing"])]),
        .executableTarget(
            name: "fuzz",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchOverTheAir", "AnabranchPropertyList",
                "AnabranchProtocol", "AnabranchRealmFile", "AnabranchRules", "AnabranchSimperium",
                "AnabranchSimperiumWire", "AnabranchTesting",
            ],
            swiftSettings: [.unsafeFlags(["-parse-as-library"])]),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets where target.type != .system {
    target.swiftSettings = (target.swiftSettings ?? []) + upcomingFeatures.map { .enableUpcomingFeature($0) }
}
