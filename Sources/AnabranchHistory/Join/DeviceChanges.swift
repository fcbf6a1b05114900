package import AnabranchCore

/// The changes that a device has not uploaded, from its file: made again on the content of a synced file, each change
/// at its time (`Spec/Export.md`, section 6). Used by one thread at a time: that of the synced file.
package final class DeviceChanges: @unchecked Sendable {
    /// The largest number of list elements that the changes of one device can refer to.
    package static let listElementsMax = 4_000_000

    package struct Change: Sendable {
        let time: ChangesetTime
        fileprivate let changeset: ChangesetIndex
        /// Identifies the write.
        package let idempotencyKey: String
    }

    /// A change that is not made, in words.
    package struct Loss: Sendable {
        /// The object, the field, and the path from there.
        package var place: String
        /// The change in full, with the device's value.
        package var change: String
        package var time: ChangesetTime
        package var reason: String
        /// The value that stands there instead, and the time at which it was written.
        package var kept: String?
        package var keptTime: ChangesetTime?
    }

    package private(set) var changes: [Change] = []
    /// The first changes that are not made, at most `lossesMax`.
    package private(set) var losses: [Loss] = []
    package private(set) var lossCount = 0
    /// The number of changes that have changed something.
    package var madeCount: Int { made.count }
    private var arena = ChangesetArena()
    private let asymmetric: Set<[UInt8]>
    private let objects: [ExportLine]
    /// The objects that the device has.
    private let owned: Set<ObjectAddress>
    private var old = ObjectGraph()
    private var recovery: ChangeRecovery?
    /// By position, true for changes that need not be made again.
    private var isDone: [Bool] = []
    private var expected: ServerVersion?
    private var made: Set<ServerVersion> = []
    private var logged: LoggedWrites?, archived: LoggedWrites?
    private var time: ChangesetTime = 0
    /// Objects that the synced file holds as the device does.
    private var held: Set<ObjectAddress> = []
    /// The number of a change, and that of an instruction in it, not counting those on classes and columns.
    private struct Step: Equatable {
        var change: Int, instruction = 0
    }

    /// By place, the step that writes it last: a value that the device itself has replaced is not lost.
    private var lastWrites: [LoggedWrites.PlaceName: Step] = [:]
    private var step = Step(change: 0)
    private var isHeldKnown = false

    /// - Parameters:
    ///   - classes: the classes of the device's file.
    ///   - objects: the objects that the changes are about, as the device has them.
    /// - Throws: `LineError` or `ApplyError` for objects that do not fit the classes.
    package init(classes: [ExportedClass], objects: [ExportLine]) throws {
        self.objects = objects
        owned = Set(
            objects.compactMap { line in
                guard case .object(let className, let key, _) = line else { return nil }
                return PrimaryKey(exported: key).map { ObjectAddress(className.utf8, $0) }
            })
        asymmetric = Set(classes.filter { $0.kind == .topLevelAsymmetric }.map { Array($0.name.utf8) })
        _ = try old.write(as: .server) { transaction in
            try transaction.add(classes)
            for case .object(let className, let key, let fields) in objects {
                _ = try transaction.importObject(className, key, fields)
            }
        }
    }

    /// Adds the next change.
    /// - Parameter name: a name that no other change has.
    /// - Throws: `HistoryError` if it cannot be decoded, or refers to too many elements.
    package func add(
        _ changeset: [UInt8], named name: String, version: UInt64, at time: ChangesetTime
    ) throws(HistoryError) {
        let index: ChangesetIndex
        do {
            index = try arena.decode(changeset, version: version, tag: OriginTag(timestamp: time, ident: 0))
        } catch {
            throw HistoryError(.badChangeset, "\(error.reason)")
        }
        changes.append(
            Change(time: time, changeset: index, idempotencyKey: "device change \(name)"))
    }

    /// Ends the list of changes: no more are added.
    /// - Parameter ident: the ident of the device's file, for the keys that it made before it had one.
    /// - Throws: `HistoryError` if the changes refer to too many elements.
    package func end(of ident: ClientFileID) throws(HistoryError) {
        arena.adopt(ident)
        isDone = changes.map { _ in false }
        recordLastWrites()
        var lengths: [[UInt64]: UInt64] = [:]
        for change in changes {
            for instruction in arena.instructions(of: change.changeset) where instruction.kind.hasPath {
                var list = [UInt64(instruction.object.rawValue), UInt64(instruction.field.rawValue)]
                for element in arena.path(of: instruction) {
                    if element.isIndex {
                        let length = max(UInt64(element.index) + 1, UInt64(instruction.priorSize))
                        lengths[list] = max(lengths[list] ?? 0, length)
                    }
                    list.append(element.isIndex ? UInt64(element.index) : 1 << 32 | UInt64(element.name.rawValue))
                }
            }
        }
        guard lengths.values.reduce(0, +) <= UInt64(Self.listElementsMax) else {
            throw HistoryError(
                .badChangeset, "the changes speak of lists of more than \(Self.listElementsMax) elements together")
        }
    }

    private func recordLastWrites() {
        for (position, change) in changes.enumerated() {
            let instructions = arena.instructions(of: change.changeset).filter { !$0.kind.isSchema }
            for (number, instruction) in instructions.enumerated() where instruction.kind.hasPath {
                guard let place = LoggedWrites.place(of: instruction, in: arena) else { continue }
                lastWrites[place] = Step(change: position, instruction: number + 1)
            }
        }
    }

    // MARK: Making

    /// Finds out what was written since. Nothing may be written between this and `make`.
    package func prepare(_ position: Int, in file: SyncedFile, at now: ChangesetTime) throws(HistoryError) {
        let change = changes[position]
        if expected != file.head.version {
            if expected == nil { try begin(in: file) }
            expected = file.head.version
            isHeldKnown = false
            var recovery = ChangeRecovery(from: old, judge: self)
            for (place, change) in changes.enumerated() where place >= position && !isDone[place] {
                recovery.read(change.changeset, in: arena, changing: nil)
            }
            self.recovery = recovery
        }
        logged = try LoggedWrites(on: change.changeset, in: arena, of: file, without: made)
        time = time(of: position, at: now)
    }

    private func begin(in file: SyncedFile) throws(HistoryError) {
        let keys = changes.map { Array($0.idempotencyKey.utf8) }
        isDone = try file.read { view throws(HistoryError) in
            try keys.map { key throws(HistoryError) in try view.version(ofWrite: key) != nil }
        }
        if file.head.baseVersion > 0 {
            archived = try LoggedWrites(archivedOn: changes.map(\.changeset), in: arena, of: file)
        }
    }

    /// The time at which the change counts as made, which is never in the future.
    package func time(of position: Int, at now: ChangesetTime) -> ChangesetTime { min(changes[position].time, now) }

    /// Makes a change again.
    package func make(_ position: Int, on transaction: WriteTransaction) throws {
        step = Step(change: position)
        if !isHeldKnown { try findHeld(in: transaction) }
        try recovery?.repeatChanges(of: changes[position].changeset, in: arena, on: transaction)
    }

    /// Records that the change cannot be written; the next ones can.
    package func refuse(_ position: Int, _ error: ApplyError) {
        isDone[position] = true
        lossCount += 1
        guard losses.count < Self.lossesMax else { return }
        losses.append(
            Loss(
                place: "", change: "change \(position + 1), all of it", time: time,
                reason: String(excerptOf: "\(error)".utf8, upTo: Self.wordBytesMax)))
    }

    /// Records that the write of a change is over.
    package func record(_ write: ServerWrite, of position: Int) {
        isDone[position] = true
        guard !write.isRepetition, write.version != expected else { return }
        made.insert(write.version)
        expected = write.version
    }

    private func findHeld(in transaction: WriteTransaction) throws {
        (held, isHeldKnown) = ([], true)
        for case .object(let className, let key, let fields) in objects {
            guard let name = PrimaryKey(exported: key) else { continue }
            if try transaction.holds(className, key, fields) == true {
                held.insert(ObjectAddress(className.utf8, name))
            }
        }
    }
}

extension DeviceChanges: RecoveryJudge {
    /// The largest number of losses that are kept; further ones are only counted.
    package static let lossesMax = 1_000
    /// The largest size of the text about a value, in bytes.
    private static let wordBytesMax = 256

    package func allows(
        _ instruction: Instruction, in arena: ChangesetArena, on transaction: WriteTransaction
    ) throws(ApplyError) -> Bool {
        step.instruction += 1
        let object = ObjectAddress(of: instruction, in: arena)
        guard !asymmetric.contains(object.className) else {
            if instruction.kind == .createObject {
                add(instruction, in: arena, "objects of asymmetric classes are left out", kept: nil, at: nil)
            }
            return false
        }
        if held.contains(object) { return try isToBeNoted(instruction, in: arena, on: transaction) }
        let known = [logged, archived].compactMap { $0?.time(competingWith: instruction, in: arena) }.first
        guard let known, known > time else { return true }
        let kept = try transaction.exportedText(where: instruction, in: arena)
        let isUpdate = instruction.kind == .update
        let value = isUpdate ? ExportedValue.value(arena.payload(of: instruction)).text : nil
        let isLast = LoggedWrites.place(of: instruction, in: arena).map { lastWrites[$0] == step } ?? true
        if isLast, kept != value || !isUpdate {
            add(instruction, in: arena, "a newer value stays", kept: kept, at: known)
        }
        return false
    }

    /// True if the values of a held object have to be written again: not to change them, but to record when they were
    /// written.
    private func isToBeNoted(
        _ instruction: Instruction, in arena: ChangesetArena, on transaction: WriteTransaction
    ) throws(ApplyError) -> Bool {
        guard instruction.kind == .update else { return false }
        let payload = arena.payload(of: instruction)
        // A link that dangles would not be written as such.
        if case .link(let className, let key) = payload,
            try transaction.object(String(decoding: className, as: UTF8.self), key: key) == nil
        {
            return false
        }
        return try transaction.exportedText(where: instruction, in: arena) == ExportedValue.value(payload).text
    }

    /// Records the loss of an instruction, unless the device itself no longer has the object. Classes and properties
    /// that the device has erased are not lost either.
    package func record(dropped instruction: Instruction, in arena: ChangesetArena, _ reason: String) {
        switch instruction.kind {
        case .eraseTable, .eraseColumn: return
        case .addTable, .addColumn: break
        default: guard owned.contains(ObjectAddress(of: instruction, in: arena)) else { return }
        }
        add(instruction, in: arena, reason, kept: nil, at: nil)
    }

    private func add(
        _ instruction: Instruction, in arena: ChangesetArena, _ reason: String, kept: [UInt8]?, at time: ChangesetTime?
    ) {
        lossCount += 1
        guard losses.count < Self.lossesMax else { return }
        let words = arena.text(of: instruction)
        losses.append(
            Loss(
                place: String(excerptOf: arena.place(of: instruction).utf8),
                change: String(excerptOf: words.utf8, upTo: Self.wordBytesMax), time: self.time, reason: reason,
                kept: time == nil ? nil : kept.map { String(excerptOf: $0, upTo: Self.wordBytesMax) } ?? "nothing",
                keptTime: time))
    }
}
