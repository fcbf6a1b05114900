import AnabranchCore
import AnabranchSimulation
import AnabranchTesting
import Foundation
import GRDB
import Synchronization
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// A machine that loses power at any flush keeps what a store has acknowledged (`Spec/Durability.md`, promise P1).
@Suite struct PowerLossTests {
    private static let environment = ProcessInfo.processInfo.environment
    /// How many images of disks are looked at: `ANABRANCH_IMAGES` says another number.
    private static let imageCount = environment["ANABRANCH_IMAGES"].flatMap { Int($0) } ?? 200
    private static let firstSeed = environment["ANABRANCH_SEED"].flatMap(UInt64.init) ?? 1

    /// Two at a time.
    @Test(arguments: [0, 1] as [UInt64]) func whatIsAcknowledgedSurvives(parity: UInt64) throws {
        var seed = Self.firstSeed + parity, tally: [UnflushedFile.Survivors: Int] = [:]
        while tally.values.reduce(0, +) < Self.imageCount / 2 {
            let run = try PowerLossRun(seed: seed)
            try run.run()
            for image in run.images {
                tally[image.survivors, default: 0] += 1
                let problem: String?
                do { problem = try run.problem(of: image) } catch { problem = "\(error)" }
                if let problem {
                    Issue.record(
                        """
                        seed \(seed), flush \(image.flush), of the writes before it \(image.survivors): \(problem);
                        repeat with ANABRANCH_SEED=\(seed) swift test --filter PowerLossTests
                        """)
                    return
                }
            }
            seed += 2
        }
        for survivors in UnflushedFile.Survivors.allCases {
            #expect(tally[survivors, default: 0] * 10 > Self.imageCount / 2, "\(survivors) hardly happened")
        }
        print("PowerLossTests: \(tally.values.reduce(0, +)) images up to seed \(seed - 2), 0 violations")
    }

    /// Without that the tests above would prove nothing: a store that flushes nothing loses what it has acknowledged.
    @Test func aStoreThatDoesNotFlushIsFound() throws {
        var found = 0
        for seed in 1...6 as ClosedRange<UInt64> {
            let run = try PowerLossRun(seed: seed, flushes: false)
            try run.run()
            for image in run.images where (try? run.problem(of: image)) != .some(nil) { found += 1 }
        }
        #expect(found > 0)
    }

    @Test func aSectorIsWrittenAsAWholeOrNotAtAll() {
        var random = SeededRandom(seed: 1)
        var file = UnflushedFile(flushed: Array(repeating: 1, count: 2_000))
        file.record(.bytes(Array(repeating: 2, count: 1_500), at: 100))
        for _ in 0..<50 {
            let content = file.content(of: .some, isLast: true, using: &random) ?? []
            #expect(content.count == 2_000 && content[..<100].allSatisfy { $0 == 1 })
            for start in stride(from: 512, to: 1_536, by: 512) {
                #expect(Set(content[start..<start + 512]).count == 1)
            }
            let torn = file.content(of: .torn, isLast: true, using: &random) ?? []
            let end = torn[100...].firstIndex(of: 1) ?? torn.count
            #expect(torn[end...].allSatisfy { $0 == 1 } && end < 1_600)
        }
        #expect(file.content(of: .none, isLast: true, using: &random) == file.flushed)
        file.flush()
        #expect(file.flushed?.count(where: { $0 == 2 }) == 1_500)
    }
}

/// A store that is written, maintained, closed and opened at random, and images of what a loss of power would leave.
private final class PowerLossRun {
    private let folder: TemporaryDirectory
    private let disk: FaultFiles
    private let seed: UInt64
    private let flushes: Bool
    private let ledger = Ledger()
    private let camera: Camera

    init(seed: UInt64, flushes: Bool = true) throws {
        folder = try TemporaryDirectory()
        (self.seed, self.flushes) = (seed, flushes)
        camera = Camera(seed: seed, ledger)
        // What makes a store is not of interest here.
        try SQLiteStore(oneShardIn: folder.path).close()
        disk = try FaultFiles(in: folder.path)
    }

    var images: [DiskImage] { camera.images }

    /// True if clients see parts of the file.
    private var isFlexible: Bool { (seed / 2).isMultiple(of: 2) }

    func run() throws {
        disk.beforeFlush { [camera] disk in camera.photograph(disk) }
        let accounts = try SQLiteAccountStore(directory: folder.path)
        var store = try open(accounts)
        let reopen = { [self] in
            try store.base.close()
            store = try open(accounts)
            return store
        }
        if isFlexible {
            try FlexibleRun(seed: seed, store: store, reopen: reopen).run(steps: 40)
        } else {
            try HistoryRun(seed: seed, store: store, restart: reopen).run(steps: 40)
        }
        try store.base.close()
        try accounts.close()
    }

    private func open(_ accounts: SQLiteAccountStore) throws -> LedgerStore {
        let store = try SQLiteStore(directory: folder.path)
        if !flushes { try store.shards[0].setFlushing(false) }
        return LedgerStore(store, ledger) { [camera] store in
            let writer = store.shards[0].pool
            switch camera.below(8) {
            case 0: try camera.addUser(to: accounts)
            // Not while somebody reads for long.
            case 1: try? writer.writeWithoutTransaction { db in _ = try db.checkpoint(.passive) }
            case 2: try? writer.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
            case 3: try store.maintain(at: 1_000)
            default: break
            }
        }
    }

    /// A data directory with what is left.
    private func copy(of image: DiskImage) throws -> TemporaryDirectory {
        let copy = try TemporaryDirectory()
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path)
        where !name.contains(".sqlite") && name != DataDirectory.lockName {
            try FileManager.default.copyItem(atPath: folder.path + "/" + name, toPath: copy.path + "/" + name)
        }
        for case (let name, let content?) in image.files {
            try Data(content).write(to: URL(fileURLWithPath: copy.path + "/" + name))
        }
        return copy
    }

    /// The fault of an image; nil if there is none.
    func problem(of image: DiskImage) throws -> String? {
        let copy = try self.copy(of: image)
        let store = try SQLiteStore(directory: copy.path)
        let found = try StoredHistory(VirtualPath(isFlexible ? "flexible" : "run"), in: store)
        guard ledger.mayBe(found, at: image.ledgerCount) else {
            return "\(image.ledgerCount - 1) commits were acknowledged, and found is \(String(describing: found?.head))"
        }
        try store.close()
        let accounts = try SQLiteAccountStore(directory: copy.path)
        let users = try accounts.users(after: "", countMax: .max).count
        guard (image.userCount...image.userCount + 1).contains(users) else {
            return "\(image.userCount) users were acknowledged, and \(users) are found"
        }
        try accounts.close()
        let verification = try StoreVerification(directory: copy.path)
        var damages = try verification.checkDatabase()
        try verification.checkFiles { damages += $0.damages }
        return damages.first?.description
    }
}

/// The image of a disk at one moment, and the changes that had been acknowledged by then.
private struct DiskImage: Sendable {
    /// The number of the flush that the power did not last for.
    var flush: Int
    var survivors: UnflushedFile.Survivors
    var files: [String: [UInt8]?]
    var ledgerCount: Int
    var userCount: Int
}

/// Makes images at some of all flushes, each as likely as the others.
private final class Camera: Sendable {
    private struct State {
        var random: SeededRandom
        var images: [DiskImage] = []
        var flushes = 0
        var userCount = 0
    }

    /// Each has a store of its own to be opened and verified.
    private static let imagesMax = 50

    private let ledger: Ledger
    private let state: Mutex<State>

    init(seed: UInt64, _ ledger: Ledger) {
        self.ledger = ledger
        state = Mutex(State(random: SeededRandom(scrambling: seed)))
    }

    var images: [DiskImage] { state.withLock(\.images) }

    func below(_ bound: Int) -> Int { state.withLock { $0.random.below(bound) } }

    func addUser(to accounts: SQLiteAccountStore) throws {
        let number = state.withLock { $0.userCount }
        try accounts.add(User(ident: "user \(number)", app: "a", identities: [], createdAt: 5))
        state.withLock { $0.userCount += 1 }
    }

    func photograph(_ disk: FaultFiles.Disk) {
        state.withLock { state in
            state.flushes += 1
            let count = state.images.count
            let place = count < Self.imagesMax ? count : state.random.below(state.flushes)
            guard place < Self.imagesMax else { return }
            let survivors = state.random.pick(UnflushedFile.Survivors.allCases)
            let image = DiskImage(
                flush: state.flushes, survivors: survivors, files: disk.image(of: survivors, using: &state.random),
                ledgerCount: ledger.count, userCount: state.userCount)
            if place == count { state.images.append(image) } else { state.images[place] = image }
        }
    }
}
