#if canImport(CLibPQ)
import AnabranchCore

extension BridgedTable {
    /// A column that has a property. The key's is not among them.
    struct Column: Equatable {
        let name: String
        /// The type as SQL spells it, with modifiers such as its length.
        let type: String
        let kind: ColumnKind
        let isArray: Bool
        /// The table whose keys a foreign key says the column has.
        var target: String?
        /// The table whose rows are the elements; nil for a column of the table itself.
        var list: ListTable?

        /// The value in the row `t`.
        var current: String { list?.array ?? "t.\(name.quoted)" }

        /// The value as `to_json` is to take it: decimals as texts, for numbers of JSON may be rounded.
        var selected: String {
            kind == .decimal ? isArray ? "\(current)::text[]" : "\(current)::text" : current
        }

        /// The value as it can be compared with others: each difference counts but those that objects do not know.
        func comparable(_ value: String) -> String {
            switch kind {
            case _ where isArray && list == nil: "coalesce(\(value), '{}')"
            case .json where !isArray: "nullif(\(value)::jsonb, 'null')"
            case .text where !isArray: "\(value)::text COLLATE \"C\""
            default: value
            }
        }

        /// True of a value of the row that no object can hold; nil if there is none of that kind.
        private var isUnfit: String? {
            switch (kind, isArray) {
            case _ where list != nil: nil
            case (.date, true): "array_ndims(\(current)) > 1 OR '{infinity,-infinity}' && \(current)"
            case (_, true): "array_ndims(\(current)) > 1"
            case (.date, _): "NOT isfinite(\(current))"
            case (.decimal, _): "length(ltrim(replace(abs(\(current))::text, '.', ''), '0')) > \(Decimal128.digitsMax)"
            default: nil
            }
        }

        /// True of a row that has not the value of the batch. An object without value leaves the row one that no object
        /// can hold.
        func differs(from value: String) -> String {
            let differs = "\(comparable(current)) IS DISTINCT FROM \(comparable(value))"
            guard let isUnfit else { return differs }
            let isNone = isArray ? "coalesce(\(value), '{}') = '{}'" : "\(value) IS NULL"
            return "(\(differs) AND NOT (\(isNone) AND (\(isUnfit))))"
        }

        /// True if values that are not written over each other can differ.
        var hasEqualValues: Bool {
            list == nil && (isArray || [.json, .date, .decimal, .float, .double].contains(kind))
        }
    }
}

/// The values that a column can hold.
enum ColumnKind: Equatable {
    case int, bool, float, double, text, data, date, decimal, uuid, json

    /// - Returns: nil for a type that no property can have.
    init?(_ name: String) {
        switch name {
        case "int2", "int4", "int8": self = .int
        case "bool": self = .bool
        case "float4": self = .float
        case "float8": self = .double
        case "text", "varchar", "bpchar", "citext", "name": self = .text
        case "bytea": self = .data
        case "timestamptz", "timestamp", "date": self = .date
        case "numeric": self = .decimal
        case "uuid": self = .uuid
        case "json", "jsonb": self = .json
        default: return nil
        }
    }

    /// The type of a property that a column makes.
    var propertyType: PayloadType {
        switch self {
        case .int: .int
        case .bool: .bool
        case .float: .float
        case .double: .double
        case .text: .string
        case .data: .binary
        case .date: .timestamp
        case .decimal: .decimal
        case .uuid: .uuid
        case .json: .null
        }
    }

    /// True if the column can hold each value of a property's type.
    func holds(_ type: PayloadType) -> Bool {
        switch (self, type) {
        case (.json, _), (.double, .float), (.text, .objectID): true
        default: type != .null && type == propertyType
        }
    }
}
#endif
