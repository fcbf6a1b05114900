package import AnabranchCore

/// The checksums of records that stores keep along with logs and client files, keyed with the start of their file's
/// chain.
extension Checksum {
    package func covering(_ record: DoorRecord) -> Checksum {
        let place = record.place
        return keyed(
            [UInt64(place.space), UInt64(place.kind), record.expiresAt, UInt64(place.key.count)],
            place.key + record.value)
    }

    package func covering(schema: [UInt8], of ident: ClientFileID) -> Checksum { keyed([ident.rawValue], schema) }

    package func covering(_ generation: Generation) -> Checksum {
        keyed(
            [
                generation.version.rawValue, generation.entryCount, generation.bytes, generation.cumulativeSize,
            ], [])
    }

    package func covering(_ object: IngestedObject) -> Checksum {
        let key = object.key.stored, user = object.user.map { Array($0.utf8) }
        return keyed(
            [
                object.number, UInt64(object.className.count), UInt64(UInt8(bitPattern: key.type.rawValue)),
                UInt64(key.bytes.count), object.time, user.map { UInt64($0.count) + 1 } ?? 0,
            ], object.className + key.bytes + (user ?? []) + object.json)
    }

    /// - Parameter predicates: those of the record, as text.
    package func covering(_ record: ViewRecord, _ predicates: String) -> Checksum {
        let checksum = keyed(
            [
                record.ident.rawValue, record.queryVersion, record.changed.rawValue, record.projected.rawValue,
                record.firstNumber, record.lastNumber, UInt64(predicates.utf8.count), UInt64(record.role.utf8.count),
            ], Array(predicates.utf8) + Array(record.role.utf8))
        return record.logged.isEmpty ? checksum : checksum.keyed([], record.logged.encoded)
    }
}
