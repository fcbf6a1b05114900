package import Foundation

/// What was built together with the tests that run: the package manager puts it all into one folder.
package enum BuiltProducts {
    /// Nil in a process that runs no tests.
    package static var folder: URL? {
        #if os(macOS)
        let tests = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }?.bundleURL
        #else
        let tests = Bundle.main.executableURL
        #endif
        return tests?.deletingLastPathComponent()
    }

    /// Nil if there is no such command.
    package static func command(_ name: String) -> URL? {
        let url = folder?.appendingPathComponent(name)
        return url.flatMap { FileManager.default.isExecutableFile(atPath: $0.path) ? $0 : nil }
    }
}
