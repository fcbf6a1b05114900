/// Memory in stack order that is kept from one merge to the next: what is taken after a mark is free again when the
/// mark is released (`Spec/Transform.md`, section 13.7).
///
/// Sendable: nobody else has a pointer into the chunks, and they move with their only owner.
struct ScratchMemory: ~Copyable, @unchecked Sendable {
    struct Mark: BitwiseCopyable {
        fileprivate var chunk: Int
        fileprivate var offset: Int
    }

    private struct Chunk {
        let base: UnsafeMutableRawPointer
        let byteCount: Int
    }

    private var chunks: [Chunk] = []
    private var chunk = 0
    private var offset = 0

    deinit {
        for chunk in chunks { chunk.base.deallocate() }
    }

    var mark: Mark { Mark(chunk: chunk, offset: offset) }

    mutating func release(_ mark: Mark) {
        chunk = mark.chunk
        offset = mark.offset
    }

    /// Frees everything.
    mutating func releaseAll() { (chunk, offset) = (0, 0) }

    /// An array whose contents are whatever was there before.
    mutating func take<Element: BitwiseCopyable>(
        _ count: Int, of type: Element.Type = Element.self
    ) -> ScratchBuffer<Element> {
        let size = (count * MemoryLayout<Element>.stride + 15) & ~15
        while chunk < chunks.count, offset + size > chunks[chunk].byteCount {
            chunk += 1
            offset = 0
        }
        if chunk == chunks.count {
            let grown = max(size, 2 * (chunks.last?.byteCount ?? 8192))
            chunks.append(Chunk(base: .allocate(byteCount: grown, alignment: 16), byteCount: grown))
            offset = 0
        }
        let base = chunks[chunk].base + offset
        offset += size
        return ScratchBuffer(base: base.bindMemory(to: type, capacity: count), count: count)
    }

    /// An array of equal elements.
    mutating func take<Element: BitwiseCopyable>(_ count: Int, repeating value: Element) -> ScratchBuffer<Element> {
        let buffer = take(count, of: Element.self)
        buffer.update(repeating: value)
        return buffer
    }
}

/// The operations of one side of a list, where they stay until the list is merged.
///
/// Sendable: only the task that holds it reads and writes the operations, and it hands them to nobody but the merge
/// that it waits for.
final class ListOperationStorage: @unchecked Sendable {
    let operations: ScratchBuffer<ListOperation>
    private let base: UnsafeMutablePointer<ListOperation>

    /// - Parameter count: Their contents are whatever was there before.
    init(count: Int) {
        base = .allocate(capacity: count)
        operations = ScratchBuffer(base: base, count: count)
    }

    deinit { base.deallocate() }
}
