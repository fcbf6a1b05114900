package import AnabranchHistory
import Foundation
import Synchronization

/// The uploads that are being integrated, in a small file that is never flushed: it outlives the process, which is
/// enough, and costs no time. An upload that cannot be written is not remembered.
package final class SuspectFile: UploadSuspects {
    /// The most uploads that are remembered: no server integrates this many at a time.
    static let slotCountMax = 256
    private static let slotBytes = 40

    private struct Slot {
        var upload: Checksum
        var strikes: UInt64 = 0
        var lastTried: UInt64 = 0
        var isUnderWay = false

        init(_ upload: Checksum) { self.upload = upload }
    }

    /// The slots up to the last one in use: each upload looks through them.
    private let slots: Mutex<[Slot?]>
    private let file: Int32

    /// Opens or makes the file. Uploads that were under way when it was last written get one more strike. Nil if there
    /// can be no such file.
    init?(path: String) {
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { return nil }
        var slots: [Slot?] = (0..<Self.slotCountMax).map { Self.read($0, from: file) }
        for index in slots.indices where slots[index]?.isUnderWay == true {
            slots[index]?.strikes += 1
            slots[index]?.isUnderWay = false
            Self.write(slots[index], at: index, to: file)
        }
        Self.dropUnused(&slots)
        self.file = file
        self.slots = Mutex(slots)
    }

    deinit { close(file) }

    /// The file of a server whose store is elsewhere, in a directory that is made if it is missing.
    /// - Throws: if the directory cannot be made.
    package static func inDirectory(_ path: String) throws -> SuspectFile? {
        let folder = URL(fileURLWithPath: path, isDirectory: true)
        try FileManager.default.createDirectory(
            at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        return SuspectFile(path: folder.appendingPathComponent("suspects").path)
    }

    package func find(_ upload: Checksum) -> SuspectUpload? {
        slots.withLock { slots in
            let slot = slots.lazy.compactMap { $0 }.first { $0.upload == upload && $0.strikes > 0 }
            return slot.map { SuspectUpload(strikes: $0.strikes, lastTried: $0.lastTried) }
        }
    }

    package func begin(_ upload: Checksum, at time: UInt64) {
        change(upload) { slot in
            var slot = slot ?? Slot(upload)
            (slot.lastTried, slot.isUnderWay) = (time, true)
            return slot
        }
    }

    package func pause(_ upload: Checksum) {
        change(upload) { slot in
            guard var slot, slot.strikes > 0 else { return nil }
            slot.isUnderWay = false
            return slot
        }
    }

    package func end(_ upload: Checksum) { change(upload) { _ in nil } }

    /// Changes the slot of an upload, or a free one.
    private func change(_ upload: Checksum, _ body: (Slot?) -> Slot?) {
        slots.withLock { slots in
            let known = slots.firstIndex { $0?.upload == upload }
            let index = known ?? slots.firstIndex { $0 == nil } ?? slots.count
            guard index < Self.slotCountMax else { return }
            if index == slots.count { slots.append(nil) }
            slots[index] = body(slots[index])
            Self.write(slots[index], at: index, to: file)
            Self.dropUnused(&slots)
        }
    }

    private static func dropUnused(_ slots: inout [Slot?]) {
        while case .some(.none) = slots.last { slots.removeLast() }
    }

    // MARK: The file: checksum, strikes, time, whether it is under way; zeros for none

    private static func read(_ index: Int, from file: Int32) -> Slot? {
        var words = [UInt64](repeating: 0, count: slotBytes / 8)
        guard pread(file, &words, slotBytes, off_t(index * slotBytes)) == slotBytes, words[0] | words[1] != 0 else {
            return nil
        }
        var slot = Slot(Checksum(low: words[0], high: words[1]))
        (slot.strikes, slot.lastTried, slot.isUnderWay) = (words[2], words[3], words[4] != 0)
        return slot
    }

    private static func write(_ slot: Slot?, at index: Int, to file: Int32) {
        let words = slot.map { [$0.upload.low, $0.upload.high, $0.strikes, $0.lastTried, $0.isUnderWay ? 1 : 0] }
        _ = pwrite(file, words ?? [0, 0, 0, 0, 0], slotBytes, off_t(index * slotBytes))
    }
}
