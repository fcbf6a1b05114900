import Testing

@testable import AnabranchRealmFile

/// Changesets as a history has them: a head that says how they are compressed, and the content.
@Suite struct StoredChangesetTests {
    /// The decoded bytes, or the code of the error.
    private func content(_ bytes: [UInt8], room: Int = 1_000) -> Result<[UInt8], RealmFileError> {
        Result { () throws(RealmFileError) in
            var room = room
            return try StoredChangeset(bytes).content(&room)
        }
    }

    private func code(_ bytes: [UInt8], room: Int = 1_000) -> RealmFileError.Code? {
        if case .failure(let error) = content(bytes, room: room) { error.code } else { nil }
    }

    /// Raw deflate of "aaaaaaaaaa", and its Adler-32.
    private let deflated: [UInt8] = [0x4B, 0x4C, 0x84, 0x01, 0x00, 0x14, 0xE1, 0x03, 0xCB]

    @Test func whatIsNotCompressedStandsAsItIs() {
        #expect(content([0x01, 3, 0xAA, 0xBB, 0xCC]) == .success([0xAA, 0xBB, 0xCC]))
        #expect(content([0x02, 1, 0, 0xAA]) == .success([0xAA]))
        // A size of no bytes is 0.
        #expect(content([0x00]) == .success([]))
        #expect(code([0x01, 4, 0xAA, 0xBB, 0xCC]) == .damaged)
    }

    @Test func deflateIsUndone() {
        #expect(content([0x11, 10] + deflated) == .success([UInt8](repeating: 0x61, count: 10)))
        #expect(code([0x11, 9] + deflated) == .damaged)
        #expect(code([0x11, 11] + deflated) == .damaged)
        #expect(code([0x11, 10] + deflated.dropLast() + [0xCC]) == .damaged)
        #expect(code([0x11, 10] + deflated + [0]) == .damaged)
        #expect(code([0x11, 10] + deflated.dropLast(2)) == .damaged)
        #expect(code([0x11, 10] + deflated, room: 9) == .outputLimit)
    }

    @Test func sizesThatCannotBeAreRefusedBeforeMemoryIsTaken() {
        #expect(code([0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF] + deflated) == .damaged)
        #expect(code([0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F] + deflated) == .damaged)
        #expect(code([0x09, 1]) == .damaged)
        #expect(code([0x0F]) == .damaged)
        #expect(code([]) == .damaged)
    }

    @Test func otherMethodsAreNamed() {
        #expect(code([0x21, 1, 0]) == .format)
        #expect(code([0x31, 1, 0]) == .damaged)
    }
}
