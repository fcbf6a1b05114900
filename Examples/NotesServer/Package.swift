// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "notes-server",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "anabranch", path: "../.."),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .executableTarget(
            name: "NotesServer",
            dependencies: [
                .product(name: "AnabranchCore", package: "anabranch"),
                .product(name: "AnabranchHistory", package: "anabranch"),
                .product(name: "AnabranchSQLite", package: "anabranch"),
                .product(name: "AnabranchServer", package: "anabranch"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]),
        .testTarget(
            name: "NotesServerTests",
            dependencies: [
                "NotesServer",
                .product(name: "AnabranchClient", package: "anabranch"),
                .product(name: "AnabranchCore", package: "anabranch"),
                .product(name: "AnabranchHistory", package: "anabranch"),
                .product(name: "AnabranchServer", package: "anabranch"),
                .product(name: "AnabranchTestClient", package: "anabranch"),
            ]),
    ]
)
