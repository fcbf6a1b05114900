import AnabranchClient
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchFiles

/// The steps that two devices do at once, each without knowing of the other, in both orders of arrival and of their
/// clocks.
@Suite(.timeLimit(.minutes(30))) struct PairTests {
    private enum Operation: String, CaseIterable {
        case write, rename, move, delete, create, restore, deleteFolder, moveFolder, createInFolder, writeInFolder

        func perform(on device: SpaceDevice) async throws {
            let space = device.space, name = device.space.settings.deviceName
            switch self {
            case .write: try await device.put("/f/a", "by \(name)")
            case .rename: try await space.move(SpacePath("/f/a"), to: SpacePath("/f/of \(name)"))
            case .move: try await space.move(SpacePath("/f/a"), to: SpacePath("/\(name)/a"))
            case .delete: try await space.delete(SpacePath("/f/a"))
            case .create: try await device.put("/new", "of \(name)")
            case .restore:
                let gone = try space.trash().first { $0.path.description == "/f/gone" }
                try await space.restore(try #require(gone))
            case .deleteFolder: try await space.delete(SpacePath("/f"))
            case .moveFolder: try await space.move(SpacePath("/f"), to: SpacePath("/\(name)/f"))
            case .createInFolder: try await device.put("/f/new", "of \(name)")
            case .writeInFolder: try await device.put("/f/b", "by \(name)")
            }
        }
    }

    /// All of them: `ANABRANCH_PAIRS=all`; otherwise each two steps once, with one order of arrival and of clocks.
    @Test func everyPairEndsAsTheChapterSays() async throws {
        let isAll = ProcessInfo.processInfo.environment["ANABRANCH_PAIRS"] == "all"
        try await FilesRig.run { rig in
            var number = 0
            for (index, first) in Operation.allCases.enumerated() {
                for second in Operation.allCases.dropFirst(isAll ? 0 : index) {
                    number += 1
                    for order in isAll ? Array(0..<4) : [number % 4] {
                        let name = "\(first) and \(second), order \(order)"
                        do {
                            try await Self.run(first, second, isSwapped: order & 1 == 1, isAhead: order & 2 == 2, rig)
                        } catch {
                            Issue.record("\(name): \(error)")
                        }
                    }
                }
            }
        }
    }

    private static func run(
        _ first: Operation, _ second: Operation, isSwapped: Bool, isAhead: Bool, _ rig: FilesRig
    ) async throws {
        let partition = UUID().uuidString
        let one = try await rig.device("one", partition: partition)
        let two = try await rig.device("two", partition: partition, clockSeconds: isAhead ? 60 : -60)
        try await one.space.createFolder(SpacePath("/f"))
        for folder in ["one", "two"] { try await one.space.createFolder(SpacePath("/\(folder)")) }
        for name in ["a", "b", "gone"] { try await one.put("/f/\(name)", "base \(name)") }
        try await one.space.delete(SpacePath("/f/gone"))
        let key = try one.key("/f/a")
        try await [one, two].converge()
        for device in [one, two] {
            await device.disconnect()
            for name in ["/f/a", "/f/b"] { _ = try await device.text(name) }
        }
        try await first.perform(on: one)
        try await second.perform(on: two)
        // Contents are at the server before anybody hears of them.
        for device in [one, two] { while device.space.status.pendingFiles > 0 { await Task.yield() } }
        let order = isSwapped ? [two, one] : [one, two]
        try await order[0].connect()
        try await order[0].store.wait(for: .upload)
        try await order.converge()
        let tree = try await one.tree(), texts = tree.values.sorted()
        let label = Comment(rawValue: "\(first) and \(second), \(isSwapped) \(isAhead): \(tree)")
        // What was written is to be found by its text.
        for (operation, name) in [(first, "one"), (second, "two")] {
            switch operation {
            case .write, .writeInFolder: #expect(texts.contains("by \(name)"), label)
            case .create, .createInFolder: #expect(texts.contains("of \(name)"), label)
            case .restore: #expect(texts.contains("base gone"), label)
            case .rename, .move, .delete, .deleteFolder, .moveFolder: break
            }
        }
        let file = try one.space.entry(key)
        switch (first, second) {
        case (.create, .create):
            #expect(tree.keys.filter { $0.hasPrefix("/new") }.sorted() == ["/new", "/new (2)"], label)
        case (.write, .write): #expect(texts.filter { $0.hasPrefix("by ") }.count == 2, label)
        case (.delete, .write), (.write, .delete), (.deleteFolder, .write), (.write, .deleteFolder):
            #expect(file != nil, label)
        case (.delete, .move), (.move, .delete), (.delete, .rename), (.rename, .delete), (.delete, .delete):
            #expect(file == nil, label)
        case (.move, .move):
            #expect(file?.path.description == (isAhead ? "/two/a" : "/one/a"), label)
        case (.write, .move), (.move, .write):
            let name = first == .move ? "one" : "two", writer = first == .move ? "two" : "one"
            #expect(file?.path.description == "/\(name)/a", label)
            #expect(tree["/\(name)/a"] == "by \(writer)", label)
        default: break
        }
        for device in [one, two] { try await device.close() }
    }

    /// Two folders are moved into each other: the later move is undone, and the server writes it down.
    @Test(arguments: [true, false]) func aLoopIsCut(isAhead: Bool) async throws {
        try await FilesRig.run { rig in
            let one = try await rig.device("one")
            let two = try await rig.device("two", clockSeconds: isAhead ? 60 : -60)
            for name in ["/a", "/b", "/a/x"] { try await one.space.createFolder(SpacePath(name)) }
            try await one.put("/a/x/f", "1")
            try await [one, two].converge()
            for device in [one, two] { await device.disconnect() }
            try await one.space.move(SpacePath("/a"), to: SpacePath("/b/a"))
            try await two.space.move(SpacePath("/b"), to: SpacePath("/a/x/b"))
            try await [one, two].converge()
            let tree = isAhead ? ["/b/a/": "", "/b/": ""] : ["/a/": "", "/a/x/b/": ""]
            let shown = try await one.tree()
            #expect(Set(shown.keys).isSuperset(of: tree.keys), "\(shown)")
            #expect(shown.values.contains("1"))
            for device in [one, two] { try await device.close() }
        }
    }
}

extension SpaceDevice {
    /// Has the server know what is here, and this device what is there, and does what that asks for.
    func settle() async throws {
        try await store.wait(for: .download)
        try space.refresh()
        try await space.lookForLostContents(space.cache.publishedFiles)
        try await space.waitForUpload()
    }
}

extension [SpaceDevice] {
    /// A tree that does not come to rest.
    private struct NoRest: Error, CustomStringConvertible {
        let description: String
    }

    /// Has all devices connected, and wait until they show the same, and go on doing so when all of them have looked at
    /// that: the author of a content that has lost makes a copy of it then.
    func converge() async throws {
        for device in self where !device.store.isRunning { try await device.connect() }
        var trees: [[String: String]] = [], last = trees
        for _ in 0..<20 {
            for device in self { try await device.settle() }
            trees = []
            do {
                for device in self { trees.append(try await device.tree()) }
            } catch let error as SpaceError where [.notFound, .isFolder].contains(error.code) {
                continue  // something else has its place since it was listed
            }
            let isAtRest = allSatisfy {
                $0.space.status.pendingFiles == 0 && $0.space.store.status.pendingTransactions == 0
            }
            if isAtRest, Set(trees).count == 1, trees == last { return }
            last = trees
        }
        throw NoRest(description: "the devices differ: \(trees)")
    }
}
