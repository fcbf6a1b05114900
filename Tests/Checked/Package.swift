// swift-tools-version: 6.2
import PackageDescription

/// As in the Package.swift of the whole.
let upcomingFeatures = ["ExistentialAny", "InternalImportsByDefault", "MemberImportVisibility"]

/// What scripts/checked builds in a folder of its own: the merge and the state, with their tests, in builds that check
/// more than a release does. Sources and tests are copied beside it.
let package = Package(
    name: "checked",
    platforms: [.macOS(.v15)],
    dependencies: [.package(url: "https://github.com/apple/swift-collections", from: "1.6.0")],
    targets: [
        .systemLibrary(name: "CZlib"),
        .systemLibrary(name: "CZstd"),
        .target(name: "AnabranchCore", exclude: ["Merge/README.md"]),
        .target(name: "AnabranchQuery", dependencies: ["AnabranchCore"]),
        .target(name: "AnabranchRules", dependencies: ["AnabranchCore", "AnabranchQuery"]),
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
        .executableTarget(name: "fuzz-merge", dependencies: ["AnabranchTesting"], path: "Fuzz"),
        .testTarget(name: "AnabranchCoreTests", dependencies: ["AnabranchCore", "AnabranchTesting", "CZstd"]),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets where target.type != .system {
    target.swiftSettings = upcomingFeatures.map { .enableUpcomingFeature($0) }
}
