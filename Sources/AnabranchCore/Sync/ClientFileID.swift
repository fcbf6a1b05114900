/// The number of a client's file within one synced file, its "file ident" (`Spec/History.md`, section 3.1): clients get
/// 2, 3, 4 … in the order in which they ask, and no number is given twice. At most 2^63−1.
///
/// 0 stands for nobody in particular: for the server's own changes in its log, and for the sender in an upload.
public struct ClientFileID: TypedNumber {
    /// The number.
    public var rawValue: UInt64

    /// Takes any number.
    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// The number under which clients and the merge know the server's own file.
    public static let server: ClientFileID = 1
}

/// The number of a client's file with the salt that proves that both sides mean the same file: as IDENT carries them
/// (`Spec/Protocol.md`, section 5.1).
public struct SaltedFileID: Hashable, Sendable {
    /// The number of the file, 2 … 2^63−1 for a client's.
    public var ident: ClientFileID
    /// The random number that identifies this file, 1 … 2^63−1.
    public var salt: Salt

    /// Creates the identity of a client's file from its number and salt.
    public init(ident: ClientFileID, salt: Salt) {
        self.ident = ident
        self.salt = salt
    }
}

/// Proves that two sides mean the same version or the same client file: random, hard to guess, 1 … 2^63−1
/// (`Spec/History.md`, section 3.2). 0 is the salt of version 0 and of client files that nobody may bind.
public struct Salt: TypedNumber {
    /// The number.
    public var rawValue: UInt64

    /// Takes any number.
    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// A new salt.
    /// - Parameter randomness: hard to guess except in tests.
    public static func random(using randomness: inout some RandomNumberGenerator) -> Salt {
        Salt(rawValue: UInt64.random(in: 1...UInt64(Int64.max), using: &randomness))
    }

    /// True if the number can prove something: 1 … 2^63−1.
    public var isProof: Bool { rawValue > 0 && rawValue <= UInt64(Int64.max) }
}

/// The number by which the client names a session on its connection, the "session ident" (`Spec/Protocol.md`, section
/// 8.1): 1 … 2^63−1, and 0 in messages that concern the connection. The client may use it again for a session that
/// follows.
public struct SessionID: TypedNumber {
    /// The number.
    public var rawValue: UInt64

    /// Takes any number.
    @inlinable public init(rawValue: UInt64) { self.rawValue = rawValue }
}
