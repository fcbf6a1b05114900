import AnabranchPropertyList

/// The filter of a device for a dataclass, with the day on which it is looked at (`Spec/OverTheAirServer.md`,
/// section 6).
struct RecordFilter: Equatable {
    /// The server's ids of the containers whose records are shown; nil for all.
    var containers: [String]?
    /// How many days events are shown after their date; nil for ever.
    var days: Int64?
    /// The day, counted from 1970.
    var day: Int64

    /// True if there may be records that are not shown.
    var isLimiting: Bool { containers != nil || days != nil }

    /// Shows everything.
    init(day: Int64) { self.day = day }

    init(_ row: PropertyListDictionary) {
        containers = row["containers"]?.array?.compactMap(\.string)
        (days, day) = (row["days"]?.integer, row["day"]?.integer ?? 0)
    }

    var row: PropertyListDictionary {
        var row: PropertyListDictionary = ["day": .integer(day)]
        row["containers"] = containers.map { .texts($0) }
        row["days"] = days.map { .integer($0) }
        return row
    }

    /// True if the same records are shown: a day alone makes a difference only where days are counted.
    func isSame(as other: RecordFilter) -> Bool {
        var other = other
        if days == nil, other.days == nil { other.day = day }
        return self == other
    }

    /// Membership: a function of the record, the filter and the day alone.
    func shows(_ record: RecordFields, of entity: Dataclass.Entity) -> Bool {
        if let containers, let name = entity.container {
            let links = record[name]?.array ?? []
            let isShown = links.contains { link in containers.contains { link == .string($0) } }
            guard isShown else { return false }
        }
        if let days, let name = entity.date, let date = record[name]?.date {
            let (limit, isOver) = day.subtractingReportingOverflow(days)
            guard isOver || date.seconds >= limit.multipliedReportingOverflow(by: 86_400).partialValue else {
                return false
            }
        }
        return true
    }

    // MARK: As devices set it

    /// Checks the value of a filter resource.
    static func fault(of value: PropertyList) -> String? {
        guard let members = value.dictionary else { return "a filter is a dictionary" }
        if let value = members["default_container"], value.string == nil { return "default_container is not text" }
        if let value = members["constrain_containers"] {
            guard let ids = value.array, ids.count <= 1_000, ids.allSatisfy({ $0.string != nil }) else {
                return "constrain_containers is not an array of at most 1,000 texts"
            }
        }
        if let value = members["discard_after_days"] {
            guard let days = value.integer, 0...100_000 ~= days else {
                return "discard_after_days is not an integer from 0 to 100,000"
            }
        }
        return nil
    }
}
