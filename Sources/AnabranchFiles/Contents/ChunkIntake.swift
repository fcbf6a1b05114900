import AnabranchChunks
import Dispatch
import Foundation
import Synchronization

/// Takes the bytes of a content into the folder of a cache, two chunks at once: one is hashed while another is written.
final class ChunkIntake: Sendable {
    private struct State {
        var chunks: [ChunkHash?] = []
        var folders: Set<String> = []
        var error: (any Error)?
    }

    private static let parallelMax = 2
    private static let queue = DispatchQueue(label: "anabranch.files.intake", attributes: .concurrent)

    private let keep: @Sendable (ChunkHash, [UInt8]) throws -> String
    private let room = DispatchSemaphore(value: parallelMax)
    private let group = DispatchGroup()
    private let state = Mutex(State())

    /// - Parameter keep: keeps a chunk, and returns the folder that it is in.
    init(keep: @escaping @Sendable (ChunkHash, [UInt8]) throws -> String) { self.keep = keep }

    /// Takes the bytes of the next chunk. It waits as long as two are being written.
    func take(_ bytes: [UInt8]) throws {
        room.wait()
        let index = state.withLock { state in
            state.chunks.append(nil)
            return state.chunks.count - 1
        }
        Self.queue.async(group: group) { [self] in
            defer { room.signal() }
            do {
                let chunk = ChunkHash(of: bytes), folder = try keep(chunk, bytes)
                state.withLock { state in
                    state.chunks[index] = chunk
                    state.folders.insert(folder)
                }
            } catch {
                state.withLock { $0.error = $0.error ?? error }
            }
        }
        if let error = state.withLock({ $0.error }) { throw error }
    }

    /// Waits for all chunks.
    /// - Returns: the chunks in their order, and the folders that they are in.
    func finish() throws -> (chunks: [ChunkHash], folders: Set<String>) {
        group.wait()
        let state = state.withLock { $0 }
        if let error = state.error { throw error }
        return (state.chunks.compactMap(\.self), state.folders)
    }
}
