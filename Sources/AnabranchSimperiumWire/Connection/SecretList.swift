import AnabranchCore
import Crypto

/// Secrets that the operator has put into files, such as the API keys of an app.
package struct SecretList: Equatable, Sendable {
    /// The names of the files.
    package let files: [String]
    /// The time that a look-up takes says nothing of what they are the hashes of.
    private var hashes: Set<[UInt8]> = []

    package init(files: [String] = []) { self.files = files }

    /// Adds the secrets of a file: a JSON list of texts.
    /// - Parameter length: the least of each, in bytes.
    /// - Returns: the problem with it; nil if there is none.
    package mutating func add(_ json: some Collection<UInt8>, length: Int) -> String? {
        guard let texts = try? JSONValue(parsing: json).array?.map(\.string), !texts.isEmpty,
            texts.allSatisfy({ $0.map { $0.utf8.count >= length } ?? false })
        else { return "a JSON list of texts with at least \(length) bytes each is needed" }
        hashes.formUnion(texts.compactMap { $0.map(Self.hash) })
        return nil
    }

    var isEmpty: Bool { hashes.isEmpty }

    func contains(_ secret: String) -> Bool { hashes.contains(Self.hash(secret)) }

    private static func hash(_ secret: String) -> [UInt8] { Array(SHA256.hash(data: Array(secret.utf8))) }
}
