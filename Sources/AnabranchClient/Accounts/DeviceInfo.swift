import AnabranchCore
import Foundation

/// The description of the device that a client sends with a log-in (`Spec/Protocol.md`, section 1.4).
enum DeviceInfo {
    static func options(app: String, _ additional: [String: String]) -> JSONValue {
        var device = [
            "appId": app, "platform": platform, "platformVersion": ProcessInfo.processInfo.operatingSystemVersionString,
            "sdk": "Anabranch", "sdkVersion": "1", "cpuArch": architecture, "deviceName": "", "deviceVersion": "",
            "frameworkName": "", "frameworkVersion": "", "coreVersion": SyncClient.newestCore, "bundleId": "",
        ]
        device.merge(additional) { $1 }
        return ["device": .object(device.mapValues { .string($0) })]
    }

    private static var platform: String {
        #if os(macOS)
        "macOS"
        #elseif os(iOS)
        "iOS"
        #elseif os(Linux)
        "Linux"
        #else
        "unknown"
        #endif
    }

    private static var architecture: String {
        #if arch(arm64)
        "arm64"
        #elseif arch(x86_64)
        "x86_64"
        #else
        "unknown"
        #endif
    }
}
