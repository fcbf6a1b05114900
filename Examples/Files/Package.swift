// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "files",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "anabranch", path: "../..")],
    targets: [
        .executableTarget(
            name: "FilesMirror",
            dependencies: [
                .product(name: "AnabranchClient", package: "anabranch"),
                .product(name: "AnabranchFiles", package: "anabranch"),
            ])
    ]
)
