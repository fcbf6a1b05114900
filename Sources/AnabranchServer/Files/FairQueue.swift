import AnabranchHistory
import NIOCore

/// Requests that wait: those of one synced file in the order in which they came, and one of each file in turn, so that
/// nobody waits for all requests of another file.
struct FairQueue {
    /// A slice of an array would keep what was taken out of it.
    private var waiting: [VirtualPath: CircularBuffer<FileRequest>] = [:]
    /// The files with requests, each once, the next one first.
    private var turns: CircularBuffer<VirtualPath> = []

    var isEmpty: Bool { turns.isEmpty }

    mutating func append(_ request: FileRequest) {
        if waiting[request.path] == nil { turns.append(request.path) }
        waiting[request.path, default: CircularBuffer(initialCapacity: 1)].append(request)
    }

    mutating func popFirst() -> FileRequest? {
        guard let path = turns.popFirst(), let request = waiting[path]?.popFirst() else { return nil }
        if waiting[path]?.isEmpty == false {
            turns.append(path)
        } else {
            waiting[path] = nil
        }
        return request
    }
}
