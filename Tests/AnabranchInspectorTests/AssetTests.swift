import AnabranchServer
import Foundation
import NIOHTTP1
import Testing

@testable import AnabranchInspector

/// The files that browsers get.
@Suite struct AssetTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Sources/AnabranchInspector/Assets")

    private let assets = Assets()

    private func answer(_ path: String, _ headers: HTTPHeaders = [:]) -> EndpointResponse? {
        assets.response(to: EndpointRequest(method: .GET, path: path, headers: headers))
    }

    /// Those of the tree, byte by byte: a file that was added or changed since is in the command as well.
    @Test func everyFileIsServedAsItIsInTheTree() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
        #expect(Set(names) == Set(assets.names))
        for name in names {
            let response = try #require(answer("/assets/\(name)"), "\(name)")
            guard case .whole(let bytes) = response.body else { continue }
            #expect(Data(bytes) == FileManager.default.contents(atPath: Self.folder.appending(path: name).path))
        }
    }

    /// Everything that the page loads is there, and nothing comes from elsewhere.
    @Test func everyAddressInThemIsServed() throws {
        var found = 0
        for name in assets.names {
            let text = try String(contentsOf: Self.folder.appending(path: name), encoding: .utf8)
            for match in text.matches(of: /"(\/assets|\.)\/([a-z.]+\.(?:js|css|svg))"/) {
                found += 1
                #expect(answer("/assets/\(match.output.2)") != nil, "\(name): \(match.output.0)")
            }
            let elsewhere = text.matches(of: /https?:\/\/[^\s"'`)]+/).map { String($0.output) }
            #expect(elsewhere.allSatisfy { $0 == "http://www.w3.org/2000/svg" }, "\(name): \(elsewhere)")
        }
        #expect(found > 30)
    }

    @Test func aFileThatABrowserHasIsNotSentAgain() throws {
        let first = try #require(answer("/assets/app.js"))
        let tag = try #require(first.headers.first(name: "ETag"))
        let second = try #require(answer("/assets/app.js", ["If-None-Match": tag]))
        #expect(second.status == .notModified)
        #expect(answer("/assets/app.js", ["If-None-Match": "\"other\""])?.status == .ok)
    }

    @Test(arguments: ["/assets/", "/assets/nothing.js", "/assets/../Inspector.swift", "/app.js", "/files"])
    func nothingElseIsAFile(path: String) { #expect(answer(path) == nil) }
}
