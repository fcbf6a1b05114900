// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "merge-tool",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "anabranch", path: "../..")],
    targets: [
        .executableTarget(name: "MergeTool", dependencies: [.product(name: "AnabranchCore", package: "anabranch")])
    ]
)
