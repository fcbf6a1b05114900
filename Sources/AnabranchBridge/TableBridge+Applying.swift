#if canImport(CLibPQ)
import AnabranchCapture
import AnabranchCore

extension TableBridge {
    /// Makes rows of objects that may differ from them, and takes away those of objects that are gone.
    /// - Parameter areWaiting: true for objects that have waited.
    func applyAll(
        _ dirty: consuming ChangedObjects.Taken, areWaiting: Bool, _ state: ObjectGraph,
        _ total: inout BridgeProgress, _ progress: @Sendable (BridgeProgress) -> Void
    ) throws -> RowApplication.Outcome {
        let isEverything = dirty.isEverything
        // A null of an object says nothing as long as its row was not collected.
        let keepsValues = try isEverything && (isFirst || database.state("resync") != nil)
        let application = RowApplication(
            database, state, as: name, silence: silence, keepsValues: keepsValues, areWaiting: areWaiting)
        var all = RowApplication.Outcome()
        func run(_ batch: [ObjectReference]) throws {
            try Task.checkCancellation()
            let outcome = try application.run(batch)
            all.add(outcome)
            total.applied += outcome.count
            progress(total)
        }
        if isEverything {
            let comparison = ObjectComparison(database, state)
            for table in database.tables { try comparison.forEachObject(of: table, run) }
            // Rows that triggers have not seen may be new ones.
            guard try database.state("resync") == nil else { return all }
            for table in database.tables.reversed() {
                let gone = try comparison.rowsWithoutObject(table, limit: allowsDeletions ? .max : nil)
                for start in stride(from: 0, to: gone.count, by: RowApplication.objectCount) {
                    try run(Array(gone[start..<min(start + RowApplication.objectCount, gone.count)]))
                }
            }
            return all
        }
        let changed = database.tables.compactMap { table in
            application.number(of: table).flatMap { number in
                dirty.keys.removeValue(forKey: number).map { (number, $0.ordered()) }
            }
        }
        let size = areWaiting ? RowApplication.waitingObjects : RowApplication.objectCount
        /// Carries out the changes of the objects that are gone, or of the others.
        func run(_ keys: [PrimaryKey], of number: ClassID, areGone: Bool) throws {
            var batch: [ObjectReference] = []
            for key in keys {
                let object = ObjectReference(classID: number, key: key)
                guard try state.contains(object) != areGone else { continue }
                batch.append(object)
                guard batch.count == size else { continue }
                try run(batch)
                batch = []
            }
            if !batch.isEmpty { try run(batch) }
        }
        for (number, keys) in changed { try run(keys, of: number, areGone: false) }
        for (number, keys) in changed.reversed() { try run(keys, of: number, areGone: true) }
        return all
    }
}
#endif
