/// A top-level object, by its class and primary key. It need not exist.
public struct ObjectAddress: Hashable, Sendable {
    /// The name of the class, in UTF-8.
    public let className: [UInt8]
    /// The primary key, as a state knows it (`Spec/State.md`, A2).
    public let key: PrimaryKey

    /// Creates the address of an object.
    public init(_ className: some Sequence<UInt8>, _ key: PrimaryKey) {
        (self.className, self.key) = (Array(className), key.normalised)
    }

    /// The object that an instruction changes; not for instructions of the schema.
    package init(of instruction: Instruction, in arena: ChangesetArena) {
        let (className, key) = arena.primaryKey(of: instruction.object)
        self.init(arena.bytes(of: className), key)
    }
}
