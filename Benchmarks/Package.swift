// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "anabranch-benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "anabranch", path: ".."),
        // Without its default traits it needs no jemalloc.
        .package(url: "https://github.com/ordo-one/benchmark", exact: "1.38.1", traits: []),
    ],
    targets: [
        .executableTarget(
            name: "AnabranchBenchmarks",
            dependencies: [
                .product(name: "AnabranchCore", package: "anabranch"),
                .product(name: "_AnabranchTesting", package: "anabranch"),
                .product(name: "Benchmark", package: "benchmark"),
            ],
            path: "Benchmarks/AnabranchBenchmarks",
            plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")])
    ],
    swiftLanguageModes: [.v6]
)
