#if canImport(SwiftUI)
import AnabranchClient
import SwiftUI

/// The same list on a screen of Apple's platforms. Nobody has compiled it there yet: the project is built on
/// Linux, where the two models that it shows are tested.
struct TaskList: View {
    let store: SyncedStore
    @State private var items: ObservedObjects<Tasks.Item>
    @State private var sync: ObservedStatus

    init(_ store: SyncedStore) {
        self.store = store
        _items = State(initialValue: ObservedObjects(Tasks.items, in: store))
        _sync = State(initialValue: ObservedStatus(of: store))
    }

    var body: some View {
        List(items.results) { item in
            Toggle(item.title, isOn: isDone(item))
        }
        .overlay { if !items.isLoaded { ProgressView() } }
        .safeAreaInset(edge: .bottom) {
            Text(sync.status.isOnline ? "online" : "offline, \(sync.status.pendingTransactions) waiting")
        }
    }

    private func isDone(_ item: Tasks.Item) -> Binding<Bool> {
        Binding(
            get: { item.isDone },
            set: { isDone in
                Task { try? await store.write { try $0.edit(item) { $0.isDone = isDone } } }
            })
    }
}
#endif
