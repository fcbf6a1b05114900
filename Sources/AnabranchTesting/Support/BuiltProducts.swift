package import Foundation

/// The products built together with the running tests: the package manager puts them all into one folder.
package enum BuiltProducts {
    /// The folder of the products; nil in a process that runs no tests.
    package static var folder: URL? {
        #if os(macOS)
        let tests = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }?.bundleURL
        #else
        let tests = Bundle.main.executableURL
        #endif
        return tests?.deletingLastPathComponent()
    }

    /// The executable of this name; nil if there is none.
    package static func command(_ name: String) -> URL? {
        let url = folder?.appendingPathComponent(name)
        return url.flatMap { FileManager.default.isExecutableFile(atPath: $0.path) ? $0 : nil }
    }
}
