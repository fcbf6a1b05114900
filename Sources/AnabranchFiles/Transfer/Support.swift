import Dispatch
import Synchronization

/// Lets one operation run after another, or some at once.
actor Turns {
    private var freeCount: Int
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(atOnce count: Int = 1) { freeCount = count }

    func perform<Value: Sendable>(_ body: @Sendable () async throws -> Value) async throws -> Value {
        if freeCount > 0 { freeCount -= 1 } else { await withCheckedContinuation { waiting.append($0) } }
        defer {
            if waiting.isEmpty { freeCount += 1 } else { waiting.removeFirst().resume() }
        }
        return try await body()
    }
}

/// Arrays for the chunks of a transfer, which are used again: memory that the system makes costs, page by page, as much
/// time as the bytes that come.
final class ChunkBuffers: Sendable {
    private let free = Mutex<[[UInt8]]>([])

    /// An empty array, with the room that it had for another chunk.
    func next() -> [UInt8] {
        var buffer = free.withLock { $0.popLast() } ?? []
        buffer.removeAll(keepingCapacity: true)
        return buffer
    }

    /// Takes the array of a chunk that nobody needs any more.
    func giveBack(_ buffer: [UInt8]) {
        free.withLock { if $0.count < Downloads.parallelMax { $0.append(buffer) } }
    }
}

/// Runs work that blocks on threads that may block.
struct Disk: Sendable {
    private let queue = DispatchQueue(label: "anabranch.files", attributes: .concurrent)

    func run<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result { try work() }) }
        }
    }
}

/// Wakes the one task that waits for it. A ring that nobody waits for is kept.
final class Bell: Sendable {
    private let rings: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() { (rings, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1)) }

    func ring() { continuation.yield() }

    /// Waits for a ring, or for a time.
    /// - Returns: false if the task was cancelled.
    func wait(atMost limit: Duration? = nil) async -> Bool {
        let timer = limit.map { limit in
            Task {
                try? await Task.sleep(for: limit)
                if !Task.isCancelled { ring() }
            }
        }
        defer { timer?.cancel() }
        for await _ in rings { return !Task.isCancelled }
        return false
    }
}
