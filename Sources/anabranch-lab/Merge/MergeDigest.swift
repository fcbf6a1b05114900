import AnabranchCore
import Crypto

/// The digest by which outcomes of merges are compared.
enum MergeDigest {
    /// SHA-256 over all changesets after a merge, local then incoming, in hexadecimal digits.
    static func text(of changesets: [[UInt8]]) -> String {
        var hash = SHA256()
        for changeset in changesets { hash.update(data: changeset) }
        return Hex.encode(hash.finalize())
    }
}
