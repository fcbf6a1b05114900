// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "tasks",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "anabranch", path: "../..")],
    targets: [
        .executableTarget(
            name: "Tasks", dependencies: [.product(name: "AnabranchClient", package: "anabranch")]),
        .testTarget(
            name: "TasksTests",
            dependencies: [
                "Tasks",
                .product(name: "AnabranchHistory", package: "anabranch"),
                .product(name: "AnabranchServer", package: "anabranch"),
            ]),
    ]
)
