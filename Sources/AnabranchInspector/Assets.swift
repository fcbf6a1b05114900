import AnabranchServer
import CInspectorAssets
import Crypto
import Foundation
import NIOHTTP1

/// The files of `Assets/`, as browsers get them.
struct Assets: Sendable {
    private struct Asset {
        let bytes: [UInt8]
        let type: String
        let tag: String

        init(_ bytes: [UInt8], _ type: String) {
            self.bytes = bytes
            self.type = type
            tag = "\"" + SHA256.hash(data: Data(bytes)).prefix(8).map { String($0, radix: 16) }.joined() + "\""
        }
    }

    private let assets: [String: Asset]

    /// The names of the files.
    var names: some Collection<String> { assets.keys }

    init() {
        var assets: [String: Asset] = [:]
        var next = anabranch_inspector_assets()
        while let file = next?.pointee, let name = file.name {
            let name = String(cString: name)
            assets[name] = Asset(Array(UnsafeBufferPointer(start: file.bytes, count: file.count)), Self.type(of: name))
            next = next?.successor()
        }
        self.assets = assets
    }

    private static func type(of name: String) -> String {
        switch name.split(separator: ".").last {
        case "html": "text/html; charset=utf-8"
        case "css": "text/css; charset=utf-8"
        case "svg": "image/svg+xml"
        default: "text/javascript; charset=utf-8"
        }
    }

    /// The page, which is the same at all paths.
    var page: EndpointResponse {
        guard let page = assets["index.html"] else { return PageError.noSuch("page").response }
        return response(page, isNew: true)
    }

    /// A file of `/assets/`; nil for another path.
    func response(to request: EndpointRequest) -> EndpointResponse? {
        let name = request.path == "/favicon.ico" ? "icon.svg" : String(request.path.dropFirst("/assets/".count))
        guard name == "icon.svg" || request.path.hasPrefix("/assets/"), let asset = assets[name] else { return nil }
        return response(asset, isNew: request.headers.first(name: "if-none-match") != asset.tag)
    }

    private func response(_ asset: Asset, isNew: Bool) -> EndpointResponse {
        EndpointResponse(
            status: isNew ? .ok : .notModified,
            headers: ["Content-Type": asset.type, "Cache-Control": "no-cache", "ETag": asset.tag],
            body: .whole(isNew ? asset.bytes : []))
    }
}
