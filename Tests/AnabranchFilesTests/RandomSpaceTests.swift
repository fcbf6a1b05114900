import AnabranchChunks
import AnabranchClient
import AnabranchTesting
import Foundation
import Synchronization
import Testing

@testable import AnabranchFiles

/// Random operations on two and three devices and a model tree, offline and online, with clocks apart and restarts at
/// any time.
@Suite(.timeLimit(.minutes(30))) struct RandomSpaceTests {
    private static let environment = ProcessInfo.processInfo.environment

    /// `ANABRANCH_SEED` and `ANABRANCH_COUNT` choose others.
    @Test func allDevicesShowTheSameAndNothingIsLost() async throws {
        let first = Self.environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1
        let count = Self.environment["ANABRANCH_COUNT"].flatMap(UInt64.init) ?? 8
        try await FilesRig.run { rig in
            for seed in first..<first + count {
                do {
                    let world = try await RandomSpaces(seed, in: rig)
                    try await world.run()
                } catch {
                    Issue.record(
                        """
                        seed \(seed): \(error)
                        again: ANABRANCH_SEED=\(seed) ANABRANCH_COUNT=1 scripts/check --filter RandomSpaceTests
                        """)
                }
            }
        }
    }
}

/// Some devices with one space.
private final class RandomSpaces {
    private struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// The errors that no step may end with.
    private static let faults: Set<SpaceError.Code> = [
        .storageFailed, .storageFull, .damaged, .closed, .alreadyOpen, .tooLarge, .notText,
    ]

    private let rig: FilesRig
    private let partition: String
    private let clocks: [Double]
    private var devices: [SpaceDevice] = []
    private var random: SeededRandom
    /// The contents that were written, by their texts.
    private var written: [String: ChunkHash] = [:]
    /// The contents that somebody who had them has replaced, before they were published or after it.
    private var replaced: Set<ChunkHash> = []
    private var steps: [String] = []

    init(_ seed: UInt64, in rig: FilesRig) async throws {
        self.rig = rig
        random = SeededRandom(seed: seed)
        partition = "random \(UUID().uuidString)"
        clocks = [0, Double(random.below(200)) - 100, Double(random.below(200)) - 100]
        for index in 0..<(random.isOne(in: 3) ? 3 : 2) { devices.append(try await open(index, nil)) }
    }

    private func open(_ index: Int, _ folder: URL?) async throws -> SpaceDevice {
        try await rig.device("device\(index)", in: folder, partition: partition, clockSeconds: clocks[index]) {
            $0.policy = index == 0 ? .always : .onOpen
        }
    }

    func run() async throws {
        do {
            for _ in 0..<20 + random.below(20) { try await step() }
            try await devices.converge()
        } catch {
            throw Failure(description: "\(error) after \(steps)")
        }
        try await check()
        for device in devices { try await device.close() }
    }

    private func step() async throws {
        let index = random.below(devices.count), device = devices[index], space = device.space
        let entries = try space.everything()
        let path = entries.isEmpty ? SpacePath.root : random.pick(entries).path
        func folder() -> SpacePath { random.pick([.root] + entries.filter(\.isFolder).map(\.path)) }
        func name() -> String { random.pick(["a", "A", "b (2)", "b", "caf\u{E9}", "cafe\u{301}"]) }
        let action = random.below(12)
        steps.append("\(index):\(action) \(path)")
        do {
            switch action {
            case 0, 1: try await write(try await space.create(folder().appending(name())), device)
            case 2: try await space.createFolder(folder().appending(name()))
            case 3, 4, 5: try await write(try space.open(path), device)
            case 6, 7: try await space.move(path, to: folder().appending(name()))
            case 8: try await space.delete(path)
            case 9: if let entry = try space.trash().first { try await space.restore(entry) }
            case 10:
                if device.store.isRunning { await device.disconnect() } else { try await device.connect() }
            default:
                // Whatever is under way is cut.
                try await device.close()
                devices[index] = try await open(index, device.folder)
            }
        } catch let error as SpaceError where !Self.faults.contains(error.code) {
            // It makes no sense here, or the content is on a device that is offline.
        }
    }

    private func write(_ file: SpaceFile, _ device: SpaceDevice) async throws {
        defer { file.close() }
        let text = "text \(written.count)"
        if file.size > 0 { _ = try await file.read() }
        let former = try file.content().id
        try await file.write(string: text)
        written[text] = try file.content().id
        replaced.insert(former)
    }

    /// The tree is that of the model. Everything that was written is the content of a file, in the trash or not, or one
    /// that its successor knew.
    private func check() async throws {
        for device in devices {
            var fault = try ModelTree(device.store).fault(of: device.space)
            if fault != nil {
                // The server may have cut a loop in between.
                try await devices.converge()
                fault = try ModelTree(device.store).fault(of: device.space)
            }
            if let fault { throw Failure(description: "\(fault), after \(steps)") }
            let contents = device.space.state.withLock { Array($0.contents.values) }
            let known = replaced.union(contents.map(\.id)).union(contents.flatMap(\.ancestors))
            for (text, content) in written where !known.contains(content) {
                throw Failure(description: "'\(text)' is lost after \(steps)")
            }
        }
    }
}
