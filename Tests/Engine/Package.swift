// swift-tools-version: 6.2
import PackageDescription

/// As in the Package.swift of the whole.
let upcomingFeatures = ["ExistentialAny", "InternalImportsByDefault", "MemberImportVisibility"]

/// What scripts/core builds in a folder of its own: the engine without a server, a network, a disk and their libraries,
/// with its tests. Sources and tests are copied beside it.
let package = Package(
    name: "engine",
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
            ]),
        .target(name: "AnabranchReplica", dependencies: ["AnabranchCore"]),
        .target(
            name: "AnabranchTesting",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchQuery", "AnabranchReplica", "CZlib", "CZstd",
            ]),
        .testTarget(name: "AnabranchCoreTests", dependencies: ["AnabranchCore", "AnabranchTesting", "CZstd"]),
        .testTarget(
            name: "AnabranchQueryTests", dependencies: ["AnabranchCore", "AnabranchQuery", "AnabranchTesting"],
            exclude: ["Models"]),
        .testTarget(
            name: "AnabranchRulesTests",
            dependencies: ["AnabranchCore", "AnabranchQuery", "AnabranchRules", "AnabranchTesting"],
            exclude: ["Export"]),
        .testTarget(
            name: "AnabranchReplicaTests",
            dependencies: [
                "AnabranchCore", "AnabranchHistory", "AnabranchProtocol", "AnabranchReplica", "AnabranchTesting",
            ]),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets where target.type != .system {
    target.swiftSettings = upcomingFeatures.map { .enableUpcomingFeature($0) }
}
