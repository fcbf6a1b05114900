import AnabranchServer
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
        let script = "text/javascript; charset=utf-8"
        assets = [
            "index.html": Asset(PackageResources.index_html, "text/html; charset=utf-8"),
            "inspector.css": Asset(PackageResources.inspector_css, "text/css; charset=utf-8"),
            "icon.svg": Asset(PackageResources.icon_svg, "image/svg+xml"),
            "app.js": Asset(PackageResources.app_js, script),
            "dom.js": Asset(PackageResources.dom_js, script),
            "server.js": Asset(PackageResources.server_js, script),
            "values.js": Asset(PackageResources.values_js, script),
            "table.js": Asset(PackageResources.table_js, script),
            "plot.js": Asset(PackageResources.plot_js, script),
            "river.js": Asset(PackageResources.river_js, script),
            "overview.js": Asset(PackageResources.overview_js, script),
            "files.js": Asset(PackageResources.files_js, script),
            "objects.js": Asset(PackageResources.objects_js, script),
            "object.js": Asset(PackageResources.object_js, script),
            "history.js": Asset(PackageResources.history_js, script),
            "version.js": Asset(PackageResources.version_js, script),
            "schema.js": Asset(PackageResources.schema_js, script),
            "as.js": Asset(PackageResources.as_js, script),
            "people.js": Asset(PackageResources.people_js, script),
            "world.js": Asset(PackageResources.world_js, script),
            "recording.js": Asset(PackageResources.recording_js, script),
            "world.css": Asset(PackageResources.world_css, "text/css; charset=utf-8"),
        ]
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
