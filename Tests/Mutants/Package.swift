// swift-tools-version: 6.2
import PackageDescription

/// As in the Package.swift of the whole.
let upcomingFeatures = ["ExistentialAny", "InternalImportsByDefault", "MemberImportVisibility"]

/// What scripts/mutation builds in a folder of its own: the merge with all mutants woven into it, and the programs that
/// put one of them to the test. The libraries are copied to `Sources`.
let package = Package(
    name: "mutants",
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
        .executableTarget(
            name: "rule-mutants", dependencies: ["AnabranchCore", "AnabranchTesting"], path: "Rules",
            exclude: ["mutants.txt"]),
        .executableTarget(
            name: "list-mutants", dependencies: ["AnabranchCore", "AnabranchTesting"], path: "Lists",
            exclude: ["mutants.txt"]),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets where target.type != .system {
    target.swiftSettings = upcomingFeatures.map { .enableUpcomingFeature($0) }
}
