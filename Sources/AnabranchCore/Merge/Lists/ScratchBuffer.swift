/// An array in `ScratchMemory`, which owns the elements: linear memory for the merge of a list (`Spec/Transform.md`,
/// section 13.7). Copies are views of the same elements.
///
/// Its indices are what peers' uploads lead to, so every access is checked in builds with `-D ANABRANCH_CHECKED`
/// (`scripts/checked`). Other builds do not check.
struct ScratchBuffer<Element: BitwiseCopyable>: BitwiseCopyable, RandomAccessCollection {
    private let base: UnsafeMutablePointer<Element>
    let count: Int

    init(base: UnsafeMutablePointer<Element>, count: Int) {
        self.base = base
        self.count = count
    }

    var startIndex: Int { 0 }
    var endIndex: Int { count }

    subscript(index: Int) -> Element {
        @inline(__always) get {
            check(index)
            return base[index]
        }
        @inline(__always) nonmutating _modify {
            check(index)
            yield &base[index]
        }
    }

    subscript(index: UInt32) -> Element {
        @inline(__always) get { self[Int(index)] }
        @inline(__always) nonmutating _modify { yield &self[Int(index)] }
    }

    /// Some of the elements, with indices that start at 0.
    subscript(range: Range<Int>) -> ScratchBuffer {
        check(range)
        return ScratchBuffer(base: base + range.lowerBound, count: range.count)
    }

    func update(repeating value: Element) { base.update(repeating: value, count: count) }

    /// Moves elements to another place of the same array, or of `target`; the ranges may overlap.
    @inline(__always)
    func move(_ range: Range<Int>, to start: Int, of target: ScratchBuffer? = nil) {
        let target = target ?? self
        check(range)
        target.check(start..<start + range.count)
        (target.base + start).update(from: base + range.lowerBound, count: range.count)
    }

    // MARK: Checks

    @inline(__always)
    private func check(_ index: Int) {
        invariant(index >= 0 && index < count, "index \(index) of a scratch buffer of \(count)")
    }

    @inline(__always)
    private func check(_ range: Range<Int>) {
        invariant(range.lowerBound >= 0 && range.upperBound <= count, "\(range) of a scratch buffer of \(count)")
    }
}
