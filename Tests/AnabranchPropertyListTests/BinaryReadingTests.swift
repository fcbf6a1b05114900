import AnabranchPropertyList
import Testing

/// The binary form, rule by rule (`Spec/PropertyLists.md`, section 3).
@Suite struct BinaryReadingTests {
    /// A document of objects, with widths of a test's own.
    private static func document(
        _ objects: [[UInt8]], top: Int = 0, offsetWidth: Int = 1, referenceWidth: Int = 1, gap: Int = 0
    ) -> [UInt8] {
        var bytes = Array("bplist00".utf8) + Array(repeating: 0xFF, count: gap)
        var offsets: [UInt8] = []
        for object in objects {
            offsets += number(bytes.count, offsetWidth)
            bytes += object
        }
        let start = bytes.count
        bytes += offsets + [0, 0, 0, 0, 0, 0, UInt8(offsetWidth), UInt8(referenceWidth)]
        return bytes + number(objects.count, 8) + number(top, 8) + number(start, 8)
    }

    private static func number(_ number: Int, _ width: Int) -> [UInt8] {
        (0..<width).reversed().map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }

    private static func bits(_ number: Double) -> [UInt8] { Self.number(Int(bitPattern: UInt(number.bitPattern)), 8) }

    private static func error(_ document: [UInt8], _ limits: PropertyListLimits = .init()) -> PropertyListError? {
        do throws(PropertyListError) {
            _ = try PropertyList(parsing: document, limits: limits)
            return nil
        } catch { return error }
    }

    @Test func leaves() throws {
        let leaves: [([UInt8], PropertyList)] = [
            ([0x08], false), ([0x09], true), ([0x10, 200], 200), ([0x11, 0xFF, 0xFE], 65_534),
            ([0x12, 0xFF, 0xFF, 0xFF, 0xFF], 4_294_967_295), ([0x13] + Array(repeating: 0xFF, count: 8), -1),
            ([0x14] + Array(repeating: 0xFF, count: 16), -1),
            ([0x14] + Array(repeating: 0, count: 8) + Array(repeating: 0xFF, count: 8), .largeInteger(.max)),
            ([0x14] + Array(repeating: 0xFF, count: 8) + [0x80, 0, 0, 0, 0, 0, 0, 0], .integer(.min)),
            ([0x22, 0x3F, 0xC0, 0, 0], .real(1.5)), ([0x23] + Self.bits(-0.0), .real(-0.0)),
            ([0x23] + Self.bits(.infinity), .real(.infinity)),
            ([0x40], .data([])), ([0x42, 1, 2], .data([1, 2])), ([0x4F, 0x10, 2, 1, 2], .data([1, 2])), ([0x50], ""),
            ([0x52, 0x61, 0x0d], "a\r"), ([0x5F, 0x13, 0, 0, 0, 0, 0, 0, 0, 1, 0x61], "a"), ([0x61, 0, 0xE9], "é"),
            ([0x62, 0xD8, 0x3D, 0xDE, 0x00], "😀"), ([0x61, 0xD8, 0x3D], .illFormedString([0xD83D])), ([0x60], ""),
            ([0xA0], []), ([0xD0], [:]),
        ]
        for (bytes, value) in leaves {
            #expect(try PropertyList(parsing: Self.document([bytes])) == value, "\(bytes)")
            // One byte less, and it does not end.
            guard bytes.count > 1 else { continue }
            let error = Self.error(Self.document([Array(bytes.dropLast())]))
            #expect(error?.code == .malformed && error?.place.object == 0 && error?.place.offset == 8, "\(bytes)")
        }
    }

    @Test(arguments: [
        (0.0, 978_307_200, 0), (-978_307_200, 0, 0), (0.5, 978_307_200, 500_000_000), (-0.25, 978_307_199, 750_000_000),
        (1e-12, 978_307_200, 0), (-1e-12, 978_307_200, 0), (599_616_000.123, 1_577_923_200, 123_000_026),
        (252_423_993_599, 253_402_300_799, 0), (-63_113_904_000, -62_135_596_800, 0),
    ])
    func dates(interval: Double, seconds: Int64, nanoseconds: Int32) throws {
        let date = try #require(PropertyListDate(seconds: seconds, nanoseconds: nanoseconds))
        #expect(try PropertyList(parsing: Self.document([[0x33] + Self.bits(interval)])) == .date(date))
    }

    @Test func whatIsNoValueStaysWithItsReason() throws {
        let leaves: [[UInt8]] = [
            [0x00], [0x80, 1], [0x8F] + Array(repeating: 1, count: 16), [0xC1, 1], [0xB0], [0xCF, 0x10, 1, 1],
            [0x51, 0x80],
            [0x51, 0], [0x62, 0, 0x61, 0, 0], [0x14, 1] + Array(repeating: 0, count: 15),
            [0x14] + Array(repeating: 0xFF, count: 8) + [0x7F] + Array(repeating: 0xFF, count: 7),
            [0x33] + Self.bits(.nan), [0x33] + Self.bits(.infinity), [0x33] + Self.bits(1e300),
            [0x33] + Self.bits(252_423_993_600), [0x33] + Self.bits(-63_113_904_000.5),
        ]
        for leaf in leaves {
            let values = try #require(try PropertyList(parsing: Self.document([[0xA2, 1, 2], leaf, [0x09]])).array)
            let error = try #require(values.first?.refusal, "\(leaf)")
            #expect(
                values.last == true && error.code == .badValue && error.place.object == 1 && error.place.offset == 11)
        }
    }

    @Test(arguments: 1...8, 1...8) func allWidthsAndPlaces(offsetWidth: Int, referenceWidth: Int) throws {
        let references = [1, 2, 1].flatMap { Self.number($0, referenceWidth) }
        let objects: [[UInt8]] = [[0x09], [0x10, 7], [0x51, 0x61], [0xA3] + references]
        for gap in [0, 1, 100] {
            let bytes = Self.document(
                objects, top: 3, offsetWidth: offsetWidth, referenceWidth: referenceWidth, gap: gap)
            #expect(try PropertyList(parsing: bytes) == [7, "a", 7])
        }
    }

    @Test func sharedContainersAreRead() throws {
        let bytes = Self.document([[0xA2, 1, 1], [0xD1, 2, 3], [0x51, 0x61], [0xA0]])
        #expect(try PropertyList(parsing: bytes) == [["a": []], ["a": []]])
    }

    @Test func whatIsNoPropertyListIsRefused() throws {
        let lies: [[UInt8]] = [
            [0xA1, 1], [0xA1, 0], [0xD1, 0], [0xA2, 0], [0x70], [0x0F], [0x01], [0x15, 0], [0x20, 0], [0x90], [0xE0],
            [0xF0],
            [0x4F, 0x20], [0x4F, 0x14, 0], [0x4F, 0x13, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
            [0x5F, 0x13, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
            [0x6F, 0x13, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
            [0xAF, 0x13, 0x3F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], [0xDF, 0x12, 0xFF, 0xFF, 0xFF, 0xFF],
            [0xCF, 0x12, 0xFF, 0xFF, 0xFF, 0xFF], [0x5F], [0xAF, 0x10],
        ]
        for object in lies {
            let error = Self.error(Self.document([object]))
            #expect(error?.code == .malformed && error?.place.object == 0, "\(object): \(String(describing: error))")
        }
        let documents: [[[UInt8]]] = [
            [[0xA1, 1], [0xA1, 0]], [[0xD2, 1, 1, 2, 2], [0x51, 0x61], [0x09]], [[0xD1, 1, 1], [0x09]],
            [[0xD2, 1, 2, 3, 3], [0x51, 0x61], [0x61, 0, 0x61], [0x09]], [[0xD1, 1, 1], [0x61, 0xD8, 0]],
        ]
        for objects in documents { #expect(Self.error(Self.document(objects))?.code == .malformed, "\(objects)") }
    }

    @Test func trailersThatLie() throws {
        let bytes = Self.document([[0xA1, 1], [0x09]])
        let end = bytes.count - 32
        for (position, byte) in [
            (6, 0), (6, 9), (7, 0), (7, 9), (15, 3), (8, 0x7F), (8, 0xFF), (23, 2), (16, 0xFF), (31, 7), (31, 200),
            (24, 0x80),
        ] {
            var changed = bytes
            changed[end + position] = UInt8(byte)
            #expect(Self.error(changed)?.code == .malformed, "\(position) \(byte)")
        }
    }

    @Test func everyBeginningIsRefused() throws {
        let value: PropertyList = ["a": ["é", 1, .real(2.5), true, .data([1, 2])], "b": [:]]
        let bytes = try value.encoded(as: .binary)
        for count in 8..<bytes.count { #expect(Self.error(Array(bytes.prefix(count)))?.code == .malformed, "\(count)") }
    }

    /// Nothing traps, and what can be read can be written.
    @Test func everyOtherByteIsReadOrRefused() throws {
        let value: PropertyList = ["a": ["é", 1, .real(2.5), ["b"]], "c": .data([1, 2])]
        let bytes = try value.encoded(as: .binary)
        for index in bytes.indices {
            for byte in UInt8.min...UInt8.max {
                var changed = bytes
                changed[index] = byte
                try expectToComeBack(changed)
            }
        }
    }

    // MARK: Limits

    /// 10^30 values in 400 bytes: counted, not made.
    @Test func repeatedReferences() throws {
        let levels = (0..<30).map { level in [0xAA] + Array(repeating: UInt8(level), count: 10) }
        let error = Self.error(Self.document([[0x51, 0x61]] + levels, top: 30, offsetWidth: 2))
        #expect(error?.code == .limitExceeded && error?.place.object != nil)
        // The same text a million times, and all that a document may have.
        let text = [0x5F, 0x11, 0x03, 0xE8] + Array(repeating: UInt8(0x61), count: 1000)
        let many = [0xAF, 0x11, 0x27, 0x10] + Array(repeating: UInt8(0), count: 10_000)
        #expect(Self.error(Self.document([text, many], top: 1, offsetWidth: 2))?.code == .limitExceeded)
        let limits = PropertyListLimits(bytesMax: 11_000_000)
        #expect(Self.error(Self.document([text, many], top: 1, offsetWidth: 2), limits) == nil)
    }

    @Test(arguments: PropertyList.Form.allCases) func levels(form: PropertyList.Form) throws {
        let nested = { (count: Int) in (1..<count).reduce(PropertyList.array([])) { value, _ in [value] } }
        #expect(try PropertyList(parsing: nested(64).encoded(as: form)) == nested(64))
        let deep = try nested(65).encoded(as: form, limits: PropertyListLimits(depthMax: 65))
        let error = try #require(Self.error(deep))
        #expect(error.code == .limitExceeded && (error.place.line != nil || error.place.object != nil))
        #expect(throws: PropertyListError.self) { try nested(65).encoded(as: form) }
        let limits = PropertyListLimits(depthMax: .max)
        #expect(limits.depthMax == 512)
        #expect(try PropertyList(parsing: nested(512).encoded(as: form, limits: limits), limits: limits) == nested(512))
        #expect(throws: PropertyListError.self) { try nested(513).encoded(as: form, limits: limits) }
    }

    /// A container that is shared stands as deep as it is reached last.
    @Test func levelsOfWhatIsShared() throws {
        let objects: [[UInt8]] = [[0xA2, 2, 1], [0xA1, 2], [0xA1, 3], [0xA0]]
        #expect(Self.error(Self.document(objects), PropertyListLimits(depthMax: 4)) == nil)
        #expect(Self.error(Self.document(objects), PropertyListLimits(depthMax: 3))?.code == .limitExceeded)
    }

    @Test func aHundredThousandLevels() throws {
        let xml = "<plist>" + String(repeating: "<array>", count: 100_000)
        #expect(Self.error(Array(xml.utf8))?.code == .limitExceeded)
        let objects = (1...100_000).map { [UInt8(0xA1)] + Self.number($0, 3) } + [[0x09]]
        #expect(Self.error(Self.document(objects, offsetWidth: 3, referenceWidth: 3))?.code == .limitExceeded)
    }

    @Test(arguments: PropertyList.Form.allCases) func valuesAndBytes(form: PropertyList.Form) throws {
        let value: PropertyList = ["a": [1, 2]]
        let bytes = try value.encoded(as: form)
        #expect(Self.error(bytes, PropertyListLimits(valuesMax: 5)) == nil)
        #expect(Self.error(bytes, PropertyListLimits(valuesMax: 4))?.code == .limitExceeded)
        #expect(Self.error(bytes, PropertyListLimits(bytesMax: bytes.count)) == nil)
        #expect(Self.error(bytes, PropertyListLimits(bytesMax: bytes.count - 1))?.code == .limitExceeded)
        #expect(throws: PropertyListError.self) {
            try value.encoded(as: form, limits: PropertyListLimits(valuesMax: 4))
        }
        #expect(throws: PropertyListError.self) {
            try value.encoded(as: form, limits: PropertyListLimits(bytesMax: bytes.count - 1))
        }
    }
}
