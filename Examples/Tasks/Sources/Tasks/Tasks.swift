import AnabranchClient
import Foundation

/// A list of tasks in a terminal: `Tasks FILE [SERVER]`. Windows with a file each show the same list, whatever is typed
/// in which of them, and go on when there is no server.
@main
struct Tasks {
    /// A task, as it is stored and synchronized.
    struct Item: SyncedObject {
        static let className = "Task"

        var id = UUID()
        var title = ""
        var isDone = false
        var added = Date()
    }

    static let items = Item.all.sorted(by: \.added)

    static let help = """
        A line adds a task. x 2 ticks the second one, - 2 removes it, = 2 TEXT gives it another text.
        off goes offline, on comes back, quit ends the program.
        """

    let store: SyncedStore
    let client: SyncClient
    let screen = Screen()

    @MainActor static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        guard let path = arguments.first, !path.hasPrefix("-") else {
            print("usage: Tasks FILE [SERVER]\n\nSERVER is ws://127.0.0.1:9090 unless it is given.\n\(help)")
            exit(arguments.isEmpty ? 64 : 0)
        }
        let server = arguments.dropFirst().first ?? "ws://127.0.0.1:9090"
        let tasks = try await Tasks(path, server: server)
        await tasks.screen.show(note: help)
        try await tasks.run()
    }

    /// Opens the list, and synchronizes it from now on.
    init(_ path: String, server: String) async throws {
        store = try await SyncedStore(path, Item.self)
        client = SyncClient(SyncConfiguration(FixedRoute(server: server, app: "tasks")))
        try await client.add(store, partition: "list")
    }

    /// Carries out what is typed. It waits for the keyboard on the main thread, where nothing else happens.
    @MainActor private func run() async throws {
        let watching = [Task.detached { try await showItems() }, Task.detached { await showStatus() }]
        while let line = readLine(), line != "quit" {
            do {
                try await carryOut(line.trimmingCharacters(in: .whitespaces))
            } catch {
                await screen.show(note: "\(error)")
            }
        }
        for task in watching { task.cancel() }
        await client.stop()
        try await store.close()
    }

    private func showItems() async throws {
        for try await change in store.changes(of: Self.items) { await screen.show(items: Array(change.results)) }
    }

    private func showStatus() async {
        for await status in store.statusUpdates {
            let waiting = status.pendingTransactions
            await screen.show(
                status: (status.isOnline ? "online" : "offline") + (waiting > 0 ? ", \(waiting) waiting" : ""))
        }
    }

    private func carryOut(_ line: String) async throws {
        let words = line.split(separator: " ", maxSplits: 2).map(String.init)
        switch words.first {
        case nil: break
        case "off" where words.count == 1: await client.pause()
        case "on" where words.count == 1: await client.resume()
        case "x" where words.count == 2:
            try await edit(words[1]) { $0.isDone.toggle() }
        case "=" where words.count == 3:
            try await edit(words[1]) { $0.title = words[2] }
        case "-" where words.count == 2:
            guard let item = try item(words[1]) else { break }
            try await store.write { try $0.delete(item) }
        default:
            try await store.write { try $0.insert(Item(title: line)) }
        }
    }

    private func edit(_ number: String, _ body: @escaping @Sendable (inout Item) -> Void) async throws {
        guard let id = try item(number)?.id else { return }
        try await store.write { try $0.edit(Item.self, id, body) }
    }

    /// The task that has a number on the screen.
    private func item(_ number: String) throws -> Item? {
        let items = try store.objects(Self.items)
        guard let number = Int(number), items.indices.contains(number - 1) else { return nil }
        return items[number - 1]
    }
}

/// What the window shows, each time that something of it changes.
actor Screen {
    private var items: [Tasks.Item] = []
    private var status = "offline"
    private var note = ""

    func show(items: [Tasks.Item]) {
        self.items = items
        draw()
    }

    func show(status: String) {
        guard status != self.status else { return }
        self.status = status
        draw()
    }

    func show(note: String) {
        self.note = note
        draw()
    }

    private func draw() {
        var lines = items.enumerated().map { "\($0 + 1). [\($1.isDone ? "x" : " ")] \($1.title)" }
        lines += ["-- \(status) --"] + (note.isEmpty ? [] : [note])
        note = ""
        // In a terminal the window is drawn anew; elsewhere one drawing follows the other.
        let clear = isatty(STDOUT_FILENO) == 1 ? "\u{1B}[2J\u{1B}[H" : ""
        try? FileHandle.standardOutput.write(contentsOf: Data((clear + lines.joined(separator: "\n") + "\n").utf8))
    }
}
