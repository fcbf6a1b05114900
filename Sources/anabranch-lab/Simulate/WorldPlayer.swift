import AnabranchHistory
import AnabranchInspector
import AnabranchServer
import AnabranchSimulation
import CommandSupport
import Foundation
import Logging
import NIOCore
import ServiceLifecycle
import UnixSignals

/// Serves the page that plays worlds, on a loopback address, and makes the worlds that it asks for.
struct WorldPlayer {
    let seed: UInt64
    let faults: Set<SimulationPlan.Fault>?

    func run() async throws {
        let worlds = RecordedWorlds()
        _ = try await worlds.world(seed, faults)
        let pages = WorldPages(version: BuildInfo.version) { seed, names in
            try await worlds.world(seed, names.isEmpty ? nil : SimulationPlan.Fault.named(names))
        }
        var settings = ServerSettings(cores: 1)
        (settings.host, settings.port) = ("127.0.0.1", 0)
        let logger = Logger(label: "anabranch-lab", factory: { _ in SwiftLogNoOpLogHandler() })
        let server = SyncServer(
            settings: settings, store: InMemoryStore(), authenticator: NoClients(), routes: [HTTPRoute(to: pages)],
            logger: logger,
            onListening: { address in
                print("http://127.0.0.1:\(address.port ?? 0)/world?\(query)")
                fflush(nil)
            })
        try await ServiceGroup(
            services: [server], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger
        ).run()
    }

    private var query: String {
        "seed=\(seed)" + (faults.map { "&faults=" + $0.map(\.rawValue).sorted().joined(separator: ",") } ?? "")
    }
}

/// The worlds that were played last. One is made at a time.
private actor RecordedWorlds {
    private struct World {
        let seed: UInt64
        let faults: Set<SimulationPlan.Fault>?
        let bytes: [UInt8]
    }

    private static let countMax = 8
    private var worlds: [World] = []

    /// The recording of a world, which may be one that fails.
    func world(_ seed: UInt64, _ faults: Set<SimulationPlan.Fault>?) throws -> [UInt8] {
        if let world = worlds.first(where: { $0.seed == seed && $0.faults == faults }) { return world.bytes }
        let bytes = try Simulation.recording(of: seed, faults: faults).bytes
        worlds = [World(seed: seed, faults: faults, bytes: bytes)] + worlds.prefix(Self.countMax - 1)
        return bytes
    }
}

/// Nobody syncs with a page.
private struct NoClients: Authenticator {
    func admit(_ credentials: Credentials) async -> Admission { .userRefused(reason: "there is no sync server here") }
}
