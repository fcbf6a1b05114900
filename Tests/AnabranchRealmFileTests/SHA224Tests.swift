import AnabranchCore
import Testing

@testable import AnabranchRealmFile

/// The hash that signs the pages of encrypted files, with published values.
@Suite struct SHA224Tests {
    /// FIPS 180, and its examples in CAVP.
    @Test(arguments: [
        ("", "d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f"),
        ("abc", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "75388b16512776cc5dba5da1fd890150b0c6455cb4f58b1952522525"
        ),
        (
            String(repeating: "a", count: 1_000_000), "20794655980c91d8bbb4c1ea97618a4bf03f42581948b2ee4ee7ad67"
        ),
    ])
    func hashesAreThePublishedOnes(message: String, digest: String) {
        #expect(Hex.encode(SHA224.hash(Array(message.utf8))) == digest)
    }

    /// RFC 4231, test cases 1, 2, 3 and 6: the last has a key that is longer than a block.
    @Test(arguments: [
        (
            [UInt8](repeating: 0x0b, count: 20), Array("Hi There".utf8),
            "896fb1128abbdf196832107cd49df33f47b4b1169912ba4f53684b22"
        ),
        (
            Array("Jefe".utf8), Array("what do ya want for nothing?".utf8),
            "a30e01098bc6dbbf45690f3a7e9e6d0f8bbea2a39e6148008fd05e44"
        ),
        (
            [UInt8](repeating: 0xaa, count: 20), [UInt8](repeating: 0xdd, count: 50),
            "7fb3cb3588c6c1f6ffa9694d7d6ad2649365b0c1f65d69d1ec8333ea"
        ),
        (
            [UInt8](repeating: 0xaa, count: 131),
            Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
            "95e9a0db962095adaebe9b2d6f0dbce2d499f112f2d2b7273fa6870e"
        ),
    ])
    func codesAreThoseOfTheRFC(key: [UInt8], message: [UInt8], code: String) {
        #expect(Hex.encode(HMACSHA224.code(of: message, key: key)) == code)
    }
}
