import AnabranchChunks
import Foundation

/// Large contents, which come to a running mirror by themselves: it compares everything else meanwhile.
extension FolderMirror {
    /// A large content that is on its way.
    struct Large {
        let key: UUID
        let contentID: String
        let task: Task<Void, Never>
    }

    /// True if a content is large, and has not come yet.
    func comesByItself(_ entry: SpaceEntry) -> Bool {
        guard bell != nil, let contentID = entry.contentID, entry.size > Manifest.chunkBytes else { return false }
        return largeEnds[contentID] != true
    }

    /// Has one of some large contents come, unless one is on its way. Another one that is on its way is not needed any
    /// more.
    func beginLarge(_ entries: [SpaceEntry]) {
        if let large {
            if !entries.contains(where: { $0.key == large.key && $0.contentID == large.contentID }) {
                large.task.cancel()
            }
            return
        }
        for entry in entries {
            guard let contentID = entry.contentID, largeEnds[contentID] == nil,
                let content = space.newestContent(of: entry.key), content.id.description == contentID
            else { continue }
            let task = Task { await bringLarge(content, entry) }
            large = Large(key: entry.key, contentID: contentID, task: task)
            return
        }
    }

    private func bringLarge(_ content: Manifest, _ entry: SpaceEntry) async {
        let old = rows.byKey[entry.key].map { path($0.path) }
        do {
            try await space.prepare(content, of: entry.key, reusing: old)
            largeEnds[content.id.description] = true
        } catch is CancellationError {
            let isNeeded = space.newestContent(of: entry.key)?.id == content.id
            if !isNeeded { await space.downloads.giveUpDraft(of: content.id) }
        } catch {
            largeEnds[content.id.description] = false
            skip(path(entry.path), "\(error)")
        }
        large = nil
        bell?.ring()
    }
}
